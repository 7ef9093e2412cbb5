"""Renders dashboards/*.json from the panels below: python deploy/grafana/render.py

The JSON is what Grafana is given; a test holds it to this file, and another asks a real Prometheus every query.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "dashboards"
_SOURCE = {"type": "prometheus", "uid": "prometheus"}
_WIDTH, _HEIGHT, _ACROSS = 8, 8, 3  # Grafana's grid is 24 wide
_M = 'model=~"$model"'


def rate(metric: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{_M}{where}}}[$__rate_interval]))"


def ratio(over: str, under: str, by: str = "model", where: str = "") -> str:
    """`where` restricts what is above the line."""
    return f"{rate(over, by, where)} / {rate(under, by)}"


def per_model(over: str, under: str, by: str) -> str:
    """Of each model, `over` split by more labels."""
    return f"{rate(over, f'model, {by}')} / on (model) group_left {rate(under, 'model')}"


@dataclass(frozen=True)
class Panel:
    """A graph over time. Each query is PromQL and what a line is called."""

    title: str
    unit: str  # of Grafana: reqps, µs, percentunit, short, ...
    tells: str
    queries: tuple[tuple[str, str], ...]


REQUESTS, BATCHES = "triton_ads_batched_requests_total", "triton_ads_batches_total"
CHOICES = "triton_ads_tier_choices_total"
SEARCHES = "triton_ads_searches_total"

RANKING = (
    Panel(
        "Requests a second",
        "reqps",
        "Answered by each Triton model, ensembles included.",
        ((rate("nv_inference_request_success", "model"), "{{model}}"),),
    ),
    Panel(
        "Latency",
        "µs",
        "From arrival to answer, of the last minute; the worst of several servers.",
        tuple(
            (f'max by (model) (nv_inference_request_summary_us{{{_M}, quantile="{q}"}})', f"{{{{model}}}} p{q[2:]:0<2}")
            for q in ("0.5", "0.95", "0.99")
        ),
    ),
    Panel(
        "Errors a second",
        "reqps",
        "By cause: what our models refused, and what Triton did (REJECTED: the queue is full, or it was too late).",
        (
            (rate("triton_ads_refused_total", "model, cause"), "{{model}} {{cause}}"),
            (rate("nv_inference_request_failure", "model, reason"), "{{model}} {{reason}}"),
        ),
    ),
    Panel(
        "Deadlines missed",
        "percentunit",
        "Share of the requests that a model refused because their deadline had passed.",
        ((ratio("triton_ads_refused_total", REQUESTS, where=', cause="deadline_exceeded"'), "{{model}}"),),
    ),
    Panel(
        "Time in the queue",
        "µs",
        "Mean wait of a request before its batch.",
        ((ratio("nv_inference_queue_duration_us", "nv_inference_request_success"), "{{model}}"),),
    ),
    Panel(
        "Requests in the queue",
        "short",
        "Now. Where the recipe sets serving.max_queue, more are refused.",
        ((f"sum by (model) (nv_inference_pending_request_count{{{_M}}})", "{{model}}"),),
    ),
    Panel(
        "Requests in a batch",
        "short",
        "Whether requests meet: per execution, and per group of one tier.",
        (
            (ratio(REQUESTS, BATCHES), "{{model}}"),
            (
                ratio("triton_ads_tier_group_requests_total", "triton_ads_tier_groups_total", "model, tier"),
                "{{model}} {{tier}}",
            ),
        ),
    ),
    Panel(
        "Fill of the tiles",
        "percentunit",
        "Candidates among the places of the tiles run; the rest is padding.",
        ((ratio("triton_ads_candidates_total", "triton_ads_tile_slots_total", "model, tier"), "{{model}} {{tier}}"),),
    ),
    Panel(
        "Candidates a second",
        "short",
        "Scored, by tier.",
        ((rate("triton_ads_candidates_total", "model, tier"), "{{model}} {{tier}}"),),
    ),
    Panel(
        "Tiers and why",
        "percentunit",
        "Shares of the tiers chosen, by reason (docs/wire.md has them).",
        ((per_model(CHOICES, CHOICES, "tier, reason"), "{{model}} {{tier}}: {{reason}}"),),
    ),
    Panel(
        "Engines",
        "short",
        "Seconds in engines a second: processors that they keep busy.",
        ((rate("triton_ads_engine_seconds_total", "model, tier"), "{{model}} {{tier}}"),),
    ),
    Panel(
        "Processors",
        "percentunit",
        "Share of the machine's that is busy.",
        (("max by (instance) (nv_cpu_utilization)", "{{instance}}"),),
    ),
    Panel(
        "Unknown ads",
        "percentunit",
        "Share of the candidates that are out of vocabulary: neither in the store nor sent with features.",
        ((ratio("triton_ads_unknown_items_total", "triton_ads_candidates_total"), "{{model}}"),),
    ),
    Panel(
        "Ids out of vocabulary",
        "short",
        "In a request, by where they stand.",
        ((per_model("triton_ads_oov_ids_total", REQUESTS, "side"), "{{model}} {{side}}"),),
    ),
    Panel(
        "Cold starts",
        "percentunit",
        "Share of the requests without any feature of their user.",
        ((ratio("triton_ads_cold_starts_total", REQUESTS), "{{model}}"),),
    ),
    Panel(
        "Ready",
        "short",
        "1 while every model answers the watchdog.",
        (("min by (instance) (triton_ads_ready)", "{{instance}}"),),
    ),
    Panel(
        "Repairs in an hour",
        "short",
        "What the watchdog did, and what made it.",
        tuple(
            (f"sum by (instance) (increase(triton_ads_{name}_total[1h]))", name.replace("_", " "))
            for name in ("dead_stubs", "dead_servers", "reloads", "restarts", "failed_recoveries")
        ),
    ),
    Panel(
        "Canaries that failed",
        "percentunit",
        "Share of the watchdog's questions without a good answer.",
        (
            (
                "sum by (instance) (rate(triton_ads_canary_failures_total[$__rate_interval]))"
                " / sum by (instance) (rate(triton_ads_canaries_total[$__rate_interval]))",
                "{{instance}}",
            ),
        ),
    ),
)

GENERATION = (
    Panel(
        "Searches a second",
        "reqps",
        "By the level of the tree at which they verified all that was left; none: they stepped to the end.",
        ((rate(SEARCHES, "model, level"), "{{model}} level {{level}}"),),
    ),
    Panel(
        "Searches that verified",
        "percentunit",
        "How often the trigger was pulled.",
        ((ratio(SEARCHES, SEARCHES, where=', level!="none"'), "{{model}}"),),
    ),
    Panel(
        "Latency",
        "µs",
        "p99 of the last minute, from arrival to answer.",
        ((f'max by (model) (nv_inference_request_summary_us{{{_M}, quantile="0.99"}})', "{{model}}"),),
    ),
    Panel(
        "Forwards in a search",
        "short",
        "Steps after the prompt, and those that verification saved.",
        (
            (ratio("triton_ads_search_forwards_total", SEARCHES), "{{model}}: run"),
            (ratio("triton_ads_steps_saved_total", SEARCHES), "{{model}}: saved"),
        ),
    ),
    Panel(
        "Nodes in a search",
        "short",
        "Of the tree: run in all, and run to verify.",
        (
            (ratio("triton_ads_search_tokens_total", SEARCHES), "{{model}}: all"),
            (ratio("triton_ads_verified_tokens_total", SEARCHES), "{{model}}: to verify"),
        ),
    ),
    Panel(
        "Time of a search",
        "s",
        "In forwards: as it was, and as the calibrated cost predicted.",
        (
            (ratio("triton_ads_search_seconds_total", SEARCHES), "{{model}}: measured"),
            (ratio("triton_ads_predicted_search_seconds_total", SEARCHES), "{{model}}: predicted"),
        ),
    ),
)

DASHBOARDS = {
    "ranking": ("triton-ads: serving", RANKING, "triton_ads_batches_total"),
    "generation": ("triton-ads: generated ads", GENERATION, SEARCHES),
}


def _panel(index: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(index, _ACROSS)
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.tells,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
            for i, (expr, legend) in enumerate(panel.queries)
        ],
    }


def render(name: str) -> str:
    """The text of dashboards/NAME.json."""
    title, panels, metric = DASHBOARDS[name]
    model = {
        "name": "model",
        "type": "query",
        "datasource": _SOURCE,
        # Names of models are those that count: none is written down here.
        "query": {"query": f"label_values({metric}, model)", "refId": "model"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    dashboard = {
        "uid": f"triton-ads-{name}",
        "title": title,
        "tags": ["triton-ads"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [model]},
        "panels": [_panel(i, panel) for i, panel in enumerate(panels)],
    }
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each}.json").write_text(render(each))
