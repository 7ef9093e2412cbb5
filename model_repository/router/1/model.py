"""router: looks the user up, chooses the tier, stamps the deadline. See triton_ads/serving/router_model.py."""

from triton_ads.serving.router_model import RouterModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
