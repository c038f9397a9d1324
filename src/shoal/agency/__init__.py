"""The central agency: classes and numbers of records agreed before anybody looks at data; see ``docs/agency.md``.

Planning is here: ``distribution`` holds what is known of the population (``history`` counts it from past records),
``classes`` builds equivalence classes from it, ``samples`` (and ``k_anonymity``, ``entropy`` for other promises) say
how many records make them safe, ``planning`` puts these together and ``plan_file`` writes and reads what owners are
sent. ``applying`` makes an owner's release by a plan; ``service`` is the agency over HTTP, and ``client`` asks it.
"""
