"""user_encoder: runs the user part of a tier once per request. See triton_ads/serving/encoder_model.py."""

from triton_ads.serving.encoder_model import EncoderModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
