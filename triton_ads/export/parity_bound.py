"""The bound on parity: how far two forms of a model may be apart."""

from collections.abc import Mapping

from triton_ads.manifest import TierManifest

#: Greatest difference in probability that any two forms of a model may show.
TOLERANCE = 1e-5


class ParityError(ValueError):
    """Two forms of a model that must agree do not; the message gives both, the difference and the bound."""


def check_parity_figures(tiers: Mapping[str, TierManifest]) -> None:
    """Hold what the build measured to the bound.

    Raises:
        ParityError: a tier was not measured, or a figure is out of bound.
    """
    for tier, manifest in tiers.items():
        if not manifest.parity:
            raise ParityError(f"tier {tier}: the manifest has no parity figures")
        for forms, difference in manifest.parity.items():
            if not difference <= TOLERANCE:  # also refuses NaN
                raise ParityError(
                    f"tier {tier}, {forms}: probabilities differ by {difference:.2e}, allowed {TOLERANCE:.0e}"
                )
