//! read_file, write_file and edit_file.
