"""What is known of libraries, as data: each fact stands here once, and is asked wherever it matters."""
