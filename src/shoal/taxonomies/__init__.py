"""Value trees: what each attribute's values may be generalized to.

``tree`` holds the tree itself, ``scales`` how its ranges are written; ``construct``, ``nested`` and ``arx``
make trees from parts and from files, ``builders`` are what a policy may ask for, ``export`` writes trees, and
``completeness`` compares them with the data.
"""
