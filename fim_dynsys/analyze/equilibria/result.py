"""What a search for fixed points gives back: zeros and slow points, their kinds and errors."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fim_dynsys.analyze.equilibria.balance import Balance, IndexCheck
from fim_dynsys.analyze.equilibria.drawn import DrawnPoints
from fim_dynsys.analyze.equilibria.kinds import Kind
from fim_dynsys.analyze.results import SUPPORTED, Measured, Result, Table, Variables
from fim_dynsys.regions import Region
from fim_dynsys.wording import counted

MISSED = 0.5
"""Estimated number of missed zeros below which a search ends."""


class PointStatus(StrEnum):
    """How a fixed point was established."""

    ISOLATED = "isolated"
    """A zero with no other nearby."""
    NOT_ISOLATED = "not isolated"
    """One of a continuum of zeros, of which a few are listed."""
    ON_EDGE = "on the edge"
    """An isolated zero on the boundary of the region."""
    DOMAIN_EDGE = "edge of the domain"
    """A zero at the edge of what the field is defined on, as of ``sqrt(x)`` at 0, or its limit there."""
    ON_JUMP = "on a jump"
    """A zero of one side of a jump of the field; eigenvalues are not defined there."""
    MINIMUM = "minimum"
    """No zero: a local minimum of |f|."""


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoints(Result):
    """Fixed points found in a region: zeros first, supported ones before others, then by coordinates.

    Attributes
    ----------
    x : ndarray (n, d)
        Positions.
    eigenvalues : ndarray (n, d) of complex
        Of the Jacobian, by falling real part; on a level set of k conserved sums the d - k ones along it. At
        the edge of the field's domain those of one-sided derivatives, infinite where these are.
    kind : ndarray (n,) of Kind
        What they are.
    status : ndarray (n,) of PointStatus
        How they were established.
    residual : ndarray (n,)
        |f| in units of the field's speed.
    support : ndarray (n,)
        Support by the data, see `VectorField.support`.
    index : ndarray (n,)
        Topological index: the sign of det J, for zeros of higher order the degree round them; NaN where
        unknown and for slow points.
    index_check : IndexCheck
        Whether the indices add up to the degree on the boundary; a mismatch means that zeros were missed.
    balance : Balance
        The two sums, and the box they refer to (on a level set, in its coordinates).
    region : Region
        Where they were sought.
    non_finite : int
        Starting points at which the field was not finite.
    missed : float or None
        A lower bound of how many zeros were not met, estimated from how many were met once and twice. None
        where no more are expected and indices are checked, in up to three dimensions.
    draws : DrawnPoints or None
        The points in fields drawn from the posterior; None for a field without one. A slow point is there
        where a draw has a zero.
    errors_missing : bool
        Whether draws were wanted of an inferred field that has no posterior.
    forcing : tuple of str
        Sines and cosines of a periodically forced field, which has no fixed points.
    """

    drawn_by = "fim_dynsys.plot.objects:fixed_points"

    x: np.ndarray
    eigenvalues: np.ndarray
    kind: np.ndarray
    status: np.ndarray
    residual: np.ndarray
    support: np.ndarray
    index: np.ndarray
    balance: Balance
    region: Region
    non_finite: int
    missed: float | None = None
    draws: DrawnPoints | None = None
    errors_missing: bool = False
    forcing: tuple[str, ...] = ()

    @property
    def position_errors(self) -> np.ndarray | None:
        """Standard errors of the positions, (n, d), see `draws`; NaN where too few draws have the point."""
        return None if self.draws is None else self.draws.position_errors

    @property
    def eigenvalue_errors(self) -> np.ndarray | None:
        """Those of the eigenvalues' real and imaginary parts, as real and imaginary parts, (n, d)."""
        return None if self.draws is None else self.draws.eigenvalue_errors

    def margins(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Half widths of intervals that hold position and eigenvalues with a probability.

        Parameters
        ----------
        level : float
            The probability.

        Returns
        -------
        positions : ndarray (n, d)
            Round `x`; NaN where fewer than two draws have the point.
        eigenvalues : ndarray (n, d) of complex
            Of the eigenvalues' real and imaginary parts, as real and imaginary parts.

        Raises
        ------
        ValueError
            For points without draws.
        """
        if self.draws is None:
            raise ValueError(
                "FixedPoints.margins: expected points of a field with a posterior, got none; pass "
                "n_draws=model.ensemble(64) to fixed_points."
            )
        return self.draws.margins(self.x, self.eigenvalues, level)

    @property
    def existence(self) -> np.ndarray | None:
        """Share of the draws in which each point exists, (n,)."""
        return None if self.draws is None else self.draws.existence

    @property
    def kind_shares(self) -> tuple[dict[Kind, float], ...] | None:
        """Probability of each kind given that the point exists, a dict for each point."""
        return None if self.draws is None else self.draws.kind_shares

    @property
    def index_check(self) -> IndexCheck:
        """Whether the indices of the zeros add up to the degree on the boundary."""
        return self.balance.check

    @property
    def is_root(self) -> np.ndarray:
        """Which points are zeros of the field rather than slow points, (n,) of bool."""
        return np.array([status is not PointStatus.MINIMUM for status in self.status], dtype=bool)

    def __len__(self) -> int:
        return len(self.x)

    def _rows(self) -> Table:
        drawn = ["exists"] if self.draws is not None else []
        columns = [*self.state_names, "kind", "eigenvalues", *drawn]
        rows = zip(
            self._positions(),
            self._kinds(),
            self._spectra(),
            *([] if self.existence is None else [self.existence]),
            self.residual,
            self.support,
            self.index,
            self.status,
            strict=True,
        )
        return [*columns, "residual", "support", "index", "status"], [[*x, *rest] for x, *rest in rows]

    def _positions(self) -> list:
        shown = np.where(np.abs(self.x) > 1e-12 * self.region.size, self.x, 0.0)
        known = self.position_errors
        errors = np.full(self.x.shape, None) if known is None else known
        return [list(map(Measured, *pair)) for pair in zip(shown, errors, strict=True)]

    def _kinds(self) -> list:
        if self.kind_shares is None:
            return list(self.kind)
        return [
            f"{kind} ({', '.join(f'{name} {share:.0%}' for name, share in shares.items())})"
            if set(shares) - {kind}
            else kind
            for kind, shares in zip(self.kind, self.kind_shares, strict=True)
        ]

    def _spectra(self) -> list:
        known = self.eigenvalue_errors
        return list(map(Measured, self.eigenvalues, [None] * len(self) if known is None else known))

    def _headline(self) -> str:
        counts = {status: sum(status is s for s in self.status) for status in PointStatus}
        isolated = sum(
            counts[s]
            for s in (
                PointStatus.ISOLATED,
                PointStatus.ON_EDGE,
                PointStatus.DOMAIN_EDGE,
                PointStatus.ON_JUMP,
            )
        )
        slow, shown = counts[PointStatus.MINIMUM], counts[PointStatus.NOT_ISOLATED]
        outside = int((self.support < SUPPORTED).sum())
        parts = [counted(isolated, "fixed point")]
        parts += [f"a continuum of zeros ({shown} shown)"] if shown else []
        parts += [counted(slow, "slow point")] if slow else []
        share = f"{outside} of all " if len(self) > 1 else ""
        parts += [f"{share}unsupported by data"] if outside else []
        return f"{', '.join(parts)} in {self.region}"

    @property
    def without_derivatives(self) -> np.ndarray:
        """Which have no eigenvalues as the field, which does not jump there, cannot be differenced."""
        return (self.kind == Kind.INDETERMINATE) & np.isnan(self.eigenvalues).any(axis=1)

    def _notes(self) -> list[str]:
        if self.forcing:
            return [
                f"a field that is forced by {', '.join(self.forcing)} has no fixed points: these never stand "
                "still; limit_cycles gives its periodic responses",
                str(self.effort),
            ]
        balance = self.balance
        text = f"index check {balance.check}"
        if balance.check is IndexCheck.NOT_RUN:
            text += f": {balance.reason}"
        else:
            where = f" within {balance.box}, as a zero is at or near the edge" if balance.narrowed else ""
            text += f": indices add up to {balance.found}, {balance.boundary} on the boundary{where}"
            text += f"; {balance.reason}" if balance.reason else ""
        if self.missed is not None:
            unmet = f"an estimated {self.missed:,.0f} more" if self.missed >= MISSED else "no more"
            text += f"; {unmet} by how often each zero was met"
        if (
            self.conserved
            and PointStatus.NOT_ISOLATED in self.status
            and not any("=" in s for s in self.conserved)
        ):
            text += f"; level={{{self.conserved[0]!r}: ...}} finds those of one level"
        lost = [f"the field was not finite at {self.non_finite} of the seeds"] if self.non_finite else []
        rough = int(self.without_derivatives.sum())
        if rough:
            lost.append(
                f"no eigenvalues at {counted(rough, 'fixed point')}: no derivatives on all sides of it"
            )
        missing = (
            "No standard errors: the field has no posterior of its own; n_draws=model.ensemble(64) takes "
            "them from fields that the model infers from resampled data or draws itself."
        )
        return [text, *lost, *([missing] if self.errors_missing else []), str(self.effort)]

    def _variables(self) -> Variables:
        point = ("fixed_point",)
        by_point = {name: getattr(self, name) for name in ("kind", "status", "residual", "support", "index")}
        return {
            "x": (("fixed_point", "state"), self.x),
            "eigenvalue": (("fixed_point", "mode"), self.eigenvalues),
            **self._errors(),
            **{name: (point, value) for name, value in by_point.items()},
            "index_check": ((), np.array(self.index_check.value)),
        }

    def _errors(self) -> Variables:
        if self.draws is None:
            return {}
        kinds = list(Kind)
        shares = [[share.get(kind, 0.0) for kind in kinds] for share in self.draws.kind_shares]
        return {
            "x_error": (("fixed_point", "state"), self.draws.position_errors),
            "eigenvalue_error": (("fixed_point", "mode"), self.draws.eigenvalue_errors),
            "existence": (("fixed_point",), self.draws.existence),
            "kind_name": (("kind_name",), np.array([str(kind) for kind in kinds])),
            "kind_probability": (("fixed_point", "kind_name"), np.array(shares).reshape(-1, len(kinds))),
        }
