"""Other element types: floats and integers of values and weights, and weights as integers in blocks and back."""
