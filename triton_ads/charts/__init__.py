"""Charts as SVG that needs no package, no script and no network: axes, lines, bars. The one place that draws them."""
