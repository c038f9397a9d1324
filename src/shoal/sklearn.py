"""For scikit-learn: publish the training table by a policy, and see new rows as the release shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from shoal.anonymize import anonymize
from shoal.core.arrays import IntArray
from shoal.core.dictionaries import split_values
from shoal.core.errors import PolicyError, UsageError
from shoal.policy.policy import Policy
from shoal.release.covers import Covers, read_covers
from shoal.release.published import PublishedRelease, read_column
from shoal.release.received import ReceivedRelease
from shoal.sources.frames import as_table, like

_PAIRS = 1 << 24  # of rows and classes that are compared at a time


class ReleaseTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Publishes the table that it is fitted to, verified, and shows any row as the narrowest class that covers it.

    ``fit`` anonymizes the table by *policy* and fails if the verifier does not agree; without a policy every column is
    a quasi-identifier, and classes have at least five records. A policy that speaks of what is predicted names that
    column in *target*: it is *y*, and is published too. With *out*, a new folder, the release is written there.

    ``transform`` gives quasi-identifiers as their labels and insensitive columns as they are; identifiers, weights and
    sensitive columns are no features. A labelled number or date (in days since 1970) is the middle of its label, or
    the end that it has if the other is open (*numbers* "mid"), or both ends, the upper one excluded ("bounds"); it is
    missing where the label says nothing. A row that no class covers takes a class that covers most of its columns.

    Only the release is promised anything: ``release_``, whose rows are shuffled, and ``published_``, its features with
    the target. To train a model on nothing else, fit it to those. What ``transform`` returns is no release: rows stand
    in the order of those that were given, records that the release withheld are among them, and a row that several
    classes cover may have been published as another. Do not share it.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> age, ill = np.array([[31], [32], [46], [47]]), np.array([0, 0, 1, 1])
    >>> ages = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10]}}}
    >>> policy = {"attributes": {"x0": ages, "ill": {"role": "insensitive"}}, "privacy": [{"k-anonymity": {"k": 2}}]}
    >>> model = make_pipeline(ReleaseTransformer(policy, target="ill"), DecisionTreeClassifier()).fit(age, ill)
    >>> model[0].transform(np.array([[38], [41]])).tolist(), model.predict([[38], [41]]).tolist()
    ([[35.0], [45.0]], [0, 1])
    """

    def __init__(
        self,
        policy: str | Path | Mapping[str, Any] | Policy | None = None,
        *,
        target: str | None = None,
        numbers: Literal["mid", "bounds"] = "mid",
        out: str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        """Keep the parameters; *random_state* is the seed of the run, which whoever knows it can use."""
        self.policy = policy
        self.target = target
        self.numbers = numbers
        self.out = out
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> ReleaseTransformer:
        """Publish the table; what no promise covers is in ``release_.findings``."""
        table = self._read(X, reset=True)
        if self.numbers not in ("mid", "bounds"):
            raise UsageError("numbers must be 'mid' or 'bounds'")
        if self.target is not None:
            if y is None or self.target in table.column_names:
                raise UsageError(f"the target {self.target!r} must be given as y, and must not be a column of X")
            table = table.append_column(self.target, pa.array(np.asarray(y), from_pandas=True))
        everything = {name: {"role": "quasi"} for name in table.column_names}
        hidden = {"attributes": everything, "privacy": [{"k-anonymity": {"k": 5}}]}
        policy = Policy.load(hidden if self.policy is None else self.policy)
        changed = [name for name, one in policy.attributes.items() if one.technique or one.items]
        if changed:
            raise PolicyError(
                f"column {changed[0]!r} has a technique or items, which new rows cannot have; leave it out"
            )
        release = self.release_ = anonymize(table, policy, out=self.out, seed=self.random_state)
        found = PublishedRelease.open(release)
        if not (found.form.generalizes and found.form.whole_records and policy.names("quasi")):
            raise UsageError(
                f"the method {found.manifest.method} publishes no classes of generalized records; choose mondrian "
                "instead"
            )
        received = ReceivedRelease(found.read_rows(), found.manifest, release.verification)
        self._learn_classes(received, table.column_names)
        return self

    def transform(self, X: Any) -> Any:
        """Return each row as the narrowest class that covers it, as a frame if one was given."""
        check_is_fitted(self)
        given = self._read(X, reset=False)
        codes = np.stack([_find_codes(covers, given[name]) for name, covers in self._covers.items()], axis=1)
        cells, cell = np.unique(codes, axis=0, return_inverse=True)  # cells: (n_cells, n_quasi)
        step = max(1, _PAIRS // self._classes.num_rows)
        found = [self._find_classes(cells[at : at + step]) for at in range(0, len(cells), step)]
        seen = self._classes.take(pa.array(np.concatenate(found)[cell.reshape(-1)]))
        seen = pa.table({name: (seen if name in seen.column_names else given)[name] for name in self._features})
        frame = like(X, seen)
        if isinstance(frame, pa.Table):  # as an array had been given
            columns = [seen[name].to_numpy(zero_copy_only=False) for name in seen.column_names]
            numeric = all(column.dtype.kind in "biuf" for column in columns)
            return np.column_stack([column.astype(np.float64 if numeric else object) for column in columns])
        if hasattr(frame, "index"):
            frame.index = X.index
        return frame

    def get_feature_names_out(self, input_features: Any = None) -> Any:  # noqa: ARG002
        """Return the names of what ``transform`` gives."""
        check_is_fitted(self)
        return np.array(self._features, dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Say what is taken: texts and missing values too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _read(self, X: Any, *, reset: bool) -> pa.Table:
        """Return the rows as a table; columns of an array are called x0, x1 and so on."""
        array = check_array(X, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1)
        validate_data(self, X, reset=reset, skip_check_array=True)
        table = as_table(X)
        if table is not None:
            return table[0]
        return pa.table({f"x{j}": pa.array(array[:, j], from_pandas=True) for j in range(array.shape[1])})

    def _learn_classes(self, received: ReceivedRelease, given: Sequence[str]) -> None:
        """Keep what the classes show, narrowest first, and which values each of their labels covers."""
        manifest, rows = received.stated, received.rows
        quasi = [name for name in rows.column_names if manifest.attributes[name].role == "quasi"]
        shown = rows.group_by(quasi).aggregate([]).sort_by([(name, "ascending") for name in quasi])
        columns = [read_column(shown[name], manifest.attributes[name], "the release") for name in quasi]
        covers = [read_covers(column) for column, _ in columns]
        self._covers = dict(zip(quasi, covers, strict=True))
        members = [one.members()[codes] for one, (_, codes) in zip(covers, columns, strict=True)]
        order = np.argsort(np.sum([one.mean(axis=1) for one in members], axis=0), kind="stable")
        self._members = [one[order] for one in members]
        self._classes = self._list_features(replace(received, rows=shown.take(pa.array(order))))
        kept = [name for name in given if name in manifest.names("insensitive")]
        self._features = [*self._classes.column_names, *(name for name in kept if name != self.target)]
        self.published_ = self._list_features(received)
        for name in [*self._features[self._classes.num_columns :], *({self.target} & {*rows.column_names})]:
            self.published_ = self.published_.append_column(name, rows[name])

    def _list_features(self, received: ReceivedRelease) -> pa.Table:
        """Return the quasi-identifiers of published rows: labels of categories, and the middle or ends of numbers."""
        columns = {}
        for name, covers in self._covers.items():
            if covers.kind not in ("number", "date"):
                columns[name] = received.rows[name]
                continue
            ends = [received.table[f"{name}_{end}"] for end in ("from", "below", "mid")]
            if covers.kind == "date":
                ends = [end.cast(pa.int32()).cast(pa.float64()) for end in ends]
            low, high, middle = ends
            if self.numbers == "bounds":
                columns |= {f"{name}_from": low, f"{name}_below": high}
            else:
                columns[f"{name}_mid"] = pc.coalesce(middle, low, high)
        return pa.table(columns)

    def _find_classes(self, cells: IntArray) -> IntArray:
        """Return (n_cells,) the first class that covers most columns of each cell."""
        covered = np.zeros((len(cells), self._classes.num_rows), dtype=np.int16)
        for j, members in enumerate(self._members):
            covered += members[:, cells[:, j]].T
        return np.asarray(np.argmax(covered, axis=1))


def _find_codes(covers: Covers, values: pa.ChunkedArray) -> IntArray:
    """Return (n,) the code of each value among what the labels tell apart."""
    codes, known = split_values(values)
    return np.append(covers.places(known), covers.missing).astype(np.int64)[codes]
