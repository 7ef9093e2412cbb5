"""From trained model to a published release: ONNX, parity, the model repository."""
