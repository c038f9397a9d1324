"""The central agency: classes and numbers of records agreed before anybody looks at data; see ``docs/agency.md``.

Planning: ``distribution`` holds what is known of the population, ``classes`` builds equivalence classes from it,
``samples`` and ``entropy`` say how many records make them safe, and ``planning`` puts these together. ``apply`` makes
an owner's release by a plan. ``service`` is the agency over HTTP, ``client`` asks it, ``submissions`` are what it is
sent; both sides know ``domain`` and ``tables``.
"""
