"""The bytes of a .rten file: the header, the FlatBuffer and its schema."""
