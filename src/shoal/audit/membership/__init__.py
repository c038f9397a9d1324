"""Membership disclosure: can somebody tell from a sliced table whether a person is in it?"""
