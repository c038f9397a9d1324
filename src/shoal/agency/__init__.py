"""The central agency: classes and numbers of records agreed before anybody looks at data; see ``docs/agency.md``.

``distribution`` holds what is known of the population, ``classes`` builds equivalence classes from it, ``samples``
(and ``k_anonymity``, ``entropy`` for other promises) say how many records make them safe, ``planning`` puts these
together and ``plan_file`` writes and reads what owners are sent.
"""
