"""`distify verify`: an original and its conversion, run side by side in copies of their project, and compared."""
