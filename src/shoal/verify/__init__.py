"""The independent checker: reads a written release as a stranger would and recomputes every promise.

It shares no code with the models, the methods or the engine that made the release; a test holds that.
"""
