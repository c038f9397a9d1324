"""Checking releases by an agency's plan: a row says its class in the plan and its sensitive value, nothing more.

Rameshwar and Tandon, "(l,delta)-diversity", and ``docs/adr/0018-agreed-releases.md``.
"""
