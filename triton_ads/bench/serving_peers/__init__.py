"""What `bench serving` measures beside the ensemble `rank`: three ways to serve the same trained ranker.

    naive.py     the row-wise graph in one Python model of Triton, batched by Triton and by us: rows of many requests
    unmixed.py   user part once, item part per candidate, in one Python model of Triton: each request by itself
    fastapi_app.py   the row-wise PyTorch module, eager, behind FastAPI and uvicorn

Each gets a user id and candidate ids and looks the features up itself (lookup.py), as the ensemble does, and answers
scores in the order of the request: less than the ensemble, which also checks its input, chooses a tier and ranks.
"""
