"""Charts as SVG that needs no package, no script and no network: axes, lines, bars. Load tests, `bench serving` and
`bench router` draw with them."""
