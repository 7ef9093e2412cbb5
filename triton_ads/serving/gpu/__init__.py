"""What may import torch inside Triton: operators on GPU memory."""
