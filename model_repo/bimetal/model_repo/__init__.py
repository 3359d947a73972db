"""What the cluster serves: model sources, rendered into one Triton repository per pool.

Run ``python -m bimetal.model_repo.build`` to render; see README.md to add a model.
"""
