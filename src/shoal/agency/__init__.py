"""The central agency: classes and numbers of records agreed before any data is available; see ``docs/agency.md``.

Planning: ``distribution`` has the agency's knowledge of the population, ``classes`` builds equivalence classes from it,
``samples`` computes how many records make them safe, and ``planning`` combines these. ``apply`` makes an owner's
release by a plan. ``service`` is the agency over HTTP and ``client`` its client; both use ``domain`` and ``tables``.
"""
