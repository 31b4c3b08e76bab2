"""What files of the catalogue state, as checked records: a module for each kind of file."""
