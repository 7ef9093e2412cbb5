"""What runs inside Triton. Imports no torch."""
