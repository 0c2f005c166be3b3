"""Rows of the probes of position, made by hand."""

import pandas as pd

NOTHING = pd.DataFrame()


def moved_rows(model="m", data="d", context="none", *, read=1.0):
    """Three queries; the score falls by 0.05 a place, and unmoved it is 0.5."""
    rows = [
        {"query": q, "place": place, "read": read if place < 5 else 0.0, "start": 10 * place}
        | dict.fromkeys(
            ("ndcg_at_10", "mrr_at_100", "recall_at_100"),
            0.5 if place == 0 else 1.0 - 0.05 * (place - 1) - 0.1 * q,
        )
        for q in range(3)
        for place in range(11)
    ]
    return pd.DataFrame(rows).assign(model=model, data=data, context=context, draw=0)


def tenth_rows():
    rows = [
        {"document": d, "tenth": t, "cosine": 0.9 - 0.05 * t + 0.01 * d}
        for d in range(3)
        for t in range(1, 11)
    ]
    return pd.DataFrame(rows).assign(model="m", data="d", context="none", draw=0, pooling="cls")


def span_rows():
    right = [30 - zone for zone in range(10)]
    return pd.DataFrame(
        {"zone": range(1, 11), "tokens": 40, "right_tokens": right, "spans": 10, "right_spans": 1}
    ).assign(model="some/t5", data="d")


def start_rows():
    return pd.DataFrame(
        {"start": range(101), "passage": 10, "document": 200, "data": "d", "model": "d"}
    )
