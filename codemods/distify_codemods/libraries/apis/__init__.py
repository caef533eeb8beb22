"""What is known of functions, classes and methods of libraries: one file a library, or for what is used together."""
