"""What is known of a field before any data: equations, terms, signs, conserved quantities.

A little above five hundred lines: it is one class, the facts that a user may give, and how each is read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fim_dynsys.fields.expressions import parse
from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.search.restrictions import ROUNDING, Restriction

if TYPE_CHECKING:
    from sympy import Expr, Symbol

Bounds = tuple[float | None, float | None]
_Equality = tuple[dict[int, float], float, frozenset[str]]
_Part = tuple[int, tuple[int, ...], float]
"""Of a gradient: the state, powers and coefficient of one term."""
_Pivot = tuple[np.ndarray, float, frozenset[str]]
"""Of an eliminated coefficient: its equality with the free ones, the value, and the facts it follows from."""

_POSITIVE = {Kind.MONOMIAL, Kind.EXP, Kind.HILL2, Kind.SATURATION, Kind.INHIBITION, Kind.GAUSSIAN}
_POSITIVE |= {Kind.ARRHENIUS, Kind.LOG_SQUARE}
_RISES = {Kind.HILL, Kind.POWER, Kind.RECIPROCAL, Kind.SQUARED_RECIPROCAL}
"""Kinds that are not negative; and those that are not where their argument is not."""

_VANISHES = {Kind.SIN, Kind.HILL, Kind.HILL2, Kind.SATURATION}
"""Kinds that are zero where their argument is."""

_SAME_NUMBER = 1e-9  # difference of coefficients that are one, to the tolerance of linear programs

_OPEN = re.compile(r"\+\s*\.\.\.\s*$")


@dataclass(frozen=True)
class Knowledge:
    """Facts about a field, which a model that takes them honours exactly.

    States are named as in the data, terms and expressions are text in these names. Models with polynomial
    terms take all facts; what a model cannot honour is an error.

    Attributes
    ----------
    known : dict of str to str
        Right-hand sides: ``{"x": "v"}`` is x' = v and nothing else. ``{"v": "-9.81 + ..."}`` gives the
        coefficients of the terms that are named and leaves the others open.
    forbid : dict of str to list of str
        Terms that are not in an equation. The name of a state forbids every term with it: ``{"x": ["z"]}``
        says that x' does not depend on z; ``"x*z"`` is that term alone.
    require : dict of str to list of str
        Terms that are in an equation, however small.
    equal : list of dict of str to str
        Terms that share one coefficient: ``{"s": "-s*i", "i": "s*i"}`` has -a s i in s' and a s i in i' with
        one number a; ``{"x": "y - x"}`` is a (y - x) in x'.
    bounds : dict of str to dict of str to (low, high)
        Bounds of coefficients: ``{"x": {"y": (0, None)}}``.
    nonnegative : list of str
        States that cannot become negative while all of these are not: in the equation of such a state, terms
        without it have coefficients of at least zero, and none has an odd power of a state of any sign. For
        polynomials of kinetics that is necessary too (Hárs & Tóth 1981).
    conserved : list of str
        Quantities that stay constant along every path, such as ``"v**2/2 + x**4/4"``: their gradient times
        the field vanishes identically.

    References
    ----------
    V. Hárs, J. Tóth, On the inverse problem of reaction kinetics, Coll. Math. Soc. János Bolyai 30 (1981)
    363; J.-C. Loiseau, S. L. Brunton, Constrained sparse Galerkin regression, J. Fluid Mech. 838 (2018) 42,
    section 3 (linear equalities of coefficients).

    Examples
    --------
    >>> from fim_dynsys import Knowledge
    >>> Knowledge(known={"x": "v"}, forbid={"v": ["x*v"]})
    Knowledge(known={'x': 'v'}, forbid={'v': ['x*v']})
    """

    known: Mapping[str, str] = field(default_factory=dict)
    forbid: Mapping[str, Sequence[str]] = field(default_factory=dict)
    require: Mapping[str, Sequence[str]] = field(default_factory=dict)
    equal: Sequence[Mapping[str, str]] = ()
    bounds: Mapping[str, Mapping[str, Bounds]] = field(default_factory=dict)
    nonnegative: Sequence[str] = ()
    conserved: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("known", "forbid", "require", "bounds"):
            if not isinstance(getattr(self, name), Mapping):
                raise ValueError(
                    f"Knowledge: expected {name} as a dict by names of states, got {getattr(self, name)!r}."
                )
        for name in ("equal", "nonnegative", "conserved"):
            given = getattr(self, name)
            if isinstance(given, str | bytes) or not isinstance(given, Sequence | Set):
                raise ValueError(f"Knowledge: expected {name} as a list, got {given!r}.")
        for name in ("forbid", "require"):
            for state, terms in getattr(self, name).items():
                if isinstance(terms, str | bytes) or not isinstance(terms, Sequence | Set):
                    raise ValueError(f"Knowledge: expected {name}[{state!r}] as a list, got {terms!r}.")
        for name, kind, parts in (("equal", "terms", self.equal), ("bounds", "bounds", self.bounds.values())):
            for part in parts:
                if not isinstance(part, Mapping):
                    raise ValueError(f"Knowledge.{name}: expected dicts of state to {kind}, got {part!r}.")
        texts = {
            "known": self.known.values(),
            "forbid": [text for terms in self.forbid.values() for text in terms],
            "require": [text for terms in self.require.values() for text in terms],
            "equal": [text for shared in self.equal for text in shared.values()],
            "bounds": [text for terms in self.bounds.values() for text in terms],
            "conserved": self.conserved,
        }
        for name, given in texts.items():
            for text in given:
                if not isinstance(text, str):
                    raise ValueError(f"Knowledge.{name}: expected text such as 'x*y', got {text!r}.")

    @classmethod
    def of(cls, given: object) -> Self | None:
        """What a model's parameter holds: knowledge, the dict that `plain` gives, or None.

        Raises
        ------
        ValueError
            For anything else.
        """
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, Mapping) and set(given) <= {fact.name for fact in fields(cls)}:
            return cls(**given)
        raise ValueError(f"Knowledge: expected a fim_dynsys.Knowledge or None, got {given!r}.")

    def plain(self) -> dict[str, Any]:
        """The facts as dicts and lists, which JSON holds."""
        return {name: _plain(value) for name, value in vars(self).items() if value}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.plain().items())
        return f"Knowledge({given})"

    def restriction(
        self, dictionary: Dictionary, state_names: Sequence[str], input_names: Sequence[str] = ()
    ) -> Restriction:
        """What the facts say of the coefficients of a dictionary of monomials.

        Parameters
        ----------
        dictionary : Dictionary
            Monomials of states and inputs, in the units of the data.
        state_names : sequence of str
            Names of its states.
        input_names : sequence of str
            Names of its inputs, which have no equations.

        Returns
        -------
        Restriction
            In the units of the data.

        Raises
        ------
        ValueError
            Where facts contradict each other, name no state or no term of the dictionary, or bound a
            coefficient that several free ones decide.
        """
        return _Compiler(self, dictionary, tuple(state_names), tuple(input_names)).compiled()

    def independent(self, state_names: Sequence[str], input_names: Sequence[str] = ()) -> np.ndarray:
        """Which equations (d, second axis) cannot depend on which states and inputs (d + m, first axis).

        By `known` and by names of states in `forbid`.
        """
        names = [*state_names, *input_names]
        out = np.zeros((len(names), len(state_names)), dtype=bool)
        for state, text in self.known.items():
            if not _OPEN.search(text) and state in names:
                out[:, names.index(state)] = True
        for state, terms in self.forbid.items():
            for term in terms:
                if term in names and state in names:
                    out[names.index(term), names.index(state)] = True
        return out


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [_plain(part) for part in value]


class _Compiler:
    """One translation of facts to a restriction."""

    def __init__(
        self, facts: Knowledge, dictionary: Dictionary, states: tuple[str, ...], inputs: tuple[str, ...]
    ) -> None:
        import sympy

        names = (*states, *inputs)
        self.facts, self.dictionary, self.names, self.inputs = facts, dictionary, names, inputs
        self.symbols: tuple[Symbol, ...] = tuple(sympy.Symbol(f"s{i}", real=True) for i in range(len(names)))
        self.by_name = dict(zip(names, self.symbols, strict=True))
        self.rows = {tuple(row): i for i, row in enumerate(dictionary.exponents.tolist())}
        self.dim = len(states)
        self.size = len(dictionary) * self.dim
        self.low, self.high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        self.why_low: dict[int, str] = {}
        self.why_high: dict[int, str] = {}
        self.required: dict[int, str] = {}
        self.equalities: list[_Equality] = []
        self.gradients: dict[str, list[_Part]] = {}
        self.functions: dict[str, list[str]] = {}  # that remain in them

    # ------------------------------------------------------------------ text

    def state(self, name: str, what: str) -> int:
        states = self.names[: self.dim]
        if name not in states:
            raise ValueError(f"Knowledge.{what}: expected a state among {', '.join(states)}, got {name!r}.")
        return states.index(name)

    def expression(self, text: str, what: str) -> "Expr":
        read = parse(text, self.by_name, f"Knowledge.{what}")
        others = sorted(s.name for s in read.free_symbols - set(self.symbols))
        if others:
            raise ValueError(
                f"Knowledge.{what}: expected the states {', '.join(self.names)} and numbers in {text!r}, got "
                f"{', '.join(others)}."
            )
        return read

    def terms(self, text: str, what: str) -> dict[int, float]:
        """Coefficients of a polynomial by rows of the dictionary."""
        import sympy

        alone = tuple(int(text == name) for name in self.names)
        if alone in self.rows and any(alone):  # of any characters
            return {self.rows[alone]: 1.0}
        read = sympy.expand(self.expression(text, what))
        if not read.is_polynomial(*self.symbols):
            raise ValueError(
                f"Knowledge.{what}: expected a polynomial of the states, got {text!r}; given equations with "
                "functions are fitted by load('equations', expressions=...)."
            )
        found = {}
        for powers, number in sympy.Poly(read, *self.symbols).terms():
            if number == 0:
                continue
            if powers not in self.rows:
                raise ValueError(
                    f"Knowledge.{what}: expected terms of degree {self.dictionary.degree} at most, which the "
                    f"model searches, got {text!r}; raise its degree, or say less."
                )
            found[self.rows[powers]] = float(number)
        return found

    def term(self, text: str, what: str) -> int:
        found = self.terms(text, what)
        if len(found) != 1:
            raise ValueError(f"Knowledge.{what}: expected one term such as 'x*y', got {text!r}.")
        return next(iter(found))

    def at(self, row: int, state: int) -> int:
        return row * self.dim + state

    def name_of(self, place: int) -> str:
        row, state = divmod(place, self.dim)
        return f"{self.dictionary.names(self.names)[row]} in {self.names[state]}'"

    # ------------------------------------------------------------------ facts

    def compiled(self) -> Restriction:
        self.read_known()
        self.read_forbidden()
        self.read_equal()
        self.read_conserved()
        self.read_bounds()
        self.read_nonnegative()
        for state, terms in self.facts.require.items():
            for text in terms:
                place = self.at(self.term(text, "require"), self.state(state, "require"))
                self.required[place] = f"require {text} in {state}'"
        for place in np.flatnonzero(self.low == self.high).tolist():
            why = frozenset({self.why_low[place], self.why_high[place]})
            self.equalities.append(({place: 1.0}, float(self.low[place]), why))
        restriction = self.solved()
        self.check_conserved(restriction)
        return restriction

    def fix(self, row: int, state: int, value: float, why: str) -> None:
        self.equalities.append(({self.at(row, state): 1.0}, value, frozenset({why})))

    def read_known(self) -> None:
        for name, text in self.facts.known.items():
            state = self.state(name, "known")
            why = f"known {name}' = {text}"
            given = self.terms(_OPEN.sub("", text) or "0", "known")
            every = given if _OPEN.search(text) else range(len(self.dictionary))
            for row in every:
                self.fix(row, state, given.get(row, 0.0), why)

    def read_forbidden(self) -> None:
        for name, terms in self.facts.forbid.items():
            state = self.state(name, "forbid")
            for text in terms:
                why = f"forbid {text} in {name}'"
                if text in self.names:
                    rows = np.flatnonzero(self.dictionary.exponents[:, self.names.index(text)]).tolist()
                else:
                    rows = [self.term(text, "forbid")]
                for row in rows:
                    self.fix(row, state, 0.0, why)

    def read_equal(self) -> None:
        for shared in self.facts.equal:
            why = "equal " + ", ".join(f"{text} in {name}'" for name, text in shared.items())
            parts = [
                (self.at(row, self.state(name, "equal")), value)
                for name, text in shared.items()
                for row, value in self.terms(text, "equal").items()
            ]
            if len(parts) < 2:
                raise ValueError(
                    f"Knowledge.equal: expected two terms that share a coefficient, got {shared}."
                )
            (first, scale), *others = parts
            for place, value in others:
                self.equalities.append(({place: scale, first: -value}, 0.0, frozenset({why})))

    def read_conserved(self) -> None:
        import sympy

        for text in self.facts.conserved:
            quantity = self.expression(text, "conserved")
            slopes = [sympy.together(sympy.diff(quantity, s)) for s in self.symbols[: self.dim]]
            shared = sympy.Integer(1)
            for slope in slopes:
                shared = sympy.lcm(shared, sympy.denom(slope))
            slopes = [sympy.cancel(sympy.expand(slope * shared)) for slope in slopes]
            functions = sorted(set().union(*(s.atoms(sympy.Function) for s in slopes)), key=str)
            generators = (*self.symbols, *functions)
            if not all(slope.is_polynomial(*generators) for slope in slopes) or not any(slopes):
                raise ValueError(
                    "Knowledge.conserved: expected a quantity whose derivatives are made of polynomials, "
                    f"quotients and functions of the states, got {text!r}."
                )
            parts = [
                (state, powers, float(number))
                for state, slope in enumerate(slopes)
                for powers, number in sympy.Poly(slope, *generators).terms()
                if number != 0
            ]
            self.gradients[text] = parts
            named = dict(zip(self.symbols, map(sympy.Symbol, self.names), strict=True))
            self.functions[text] = [str(function.subs(named)) for function in functions]
            self.equalities += self.of_gradient(text, parts, self.dictionary.exponents)

    def check_conserved(self, found: Restriction) -> None:
        """Refuse quantities with functions that a field conserves only at rest.

        Terms of each function conserve them by themselves, so that none of a pendulum's energy would.
        """
        moves = (found.offset != 0.0) | (found.basis != 0.0).any(axis=1).reshape(found.offset.shape)
        for text, functions in self.functions.items():
            states = sorted({state for state, *_ in self.gradients[text]})
            if functions and not moves[:, states].any():
                names = " and ".join(sorted(f"{self.names[state]}'" for state in states))
                raise ValueError(
                    f"Knowledge.conserved: expected a quantity that polynomials can conserve, got {text!r}, "
                    f"whose derivatives contain {', '.join(functions)}: no terms of {names} conserve it. "
                    "Leave it out, or fit given equations with load('equations')."
                )

    def of_gradient(self, text: str, parts: list[_Part], exponents: np.ndarray) -> list[_Equality]:
        """What it says of monomials that their sum along the gradient of a quantity vanishes."""
        zero: dict[tuple[int, ...], dict[int, float]] = {}
        for state, powers, number in parts:
            for row, powers_of_row in enumerate(exponents.tolist()):
                key = tuple(
                    p + (powers_of_row[i] if i < len(self.names) else 0) for i, p in enumerate(powers)
                )
                entries = zero.setdefault(key, {})
                place = self.at(row, state)
                entries[place] = entries.get(place, 0.0) + number
        return [(entries, 0.0, frozenset({f"conserved {text}"})) for entries in zero.values()]

    def beyond(self, exponents: np.ndarray, kind: int, coordinate: int, admitted: np.ndarray) -> Restriction:
        """What is known of monomials times one function; see `Restriction`.

        These terms alone conserve what is conserved, and bring no state below zero that cannot become
        negative. Functions whose terms cannot satisfy that have none.
        """
        other = copy(self)
        other.dictionary, other.size = Dictionary(exponents), admitted.size
        other.low, other.high = np.full(other.size, -np.inf), np.full(other.size, np.inf)
        other.why_low, other.why_high, other.required = {}, {}, {}
        other.equalities = [
            ({place: 1.0}, 0.0, frozenset({"terms that are left out"}))
            for place in np.flatnonzero(~admitted.ravel()).tolist()
        ]
        for text, parts in self.gradients.items():
            other.equalities += self.of_gradient(text, parts, exponents)
        other.read_nonnegative(kind, coordinate)
        for place in np.flatnonzero(other.low == other.high).tolist():
            other.equalities.append(({place: 1.0}, 0.0, frozenset({other.why_low[place]})))
        try:
            return other.solved()
        except ValueError:  # bounds that several free coefficients decide
            empty = np.zeros(0)
            return Restriction(
                np.zeros(admitted.shape),
                np.zeros((admitted.size, 0)),
                empty.astype(np.intp),
                empty,
                empty,
                empty.astype(bool),
                self.facts.independent(self.names[: self.dim], self.inputs),
            )

    def bound(self, place: int, low: float, high: float, why: str) -> None:
        if low > self.low[place]:
            self.low[place], self.why_low[place] = low, why
        if high < self.high[place]:
            self.high[place], self.why_high[place] = high, why
        if self.low[place] > self.high[place]:
            self.contradicted({self.why_low[place], self.why_high[place]}, self.name_of(place))

    def read_bounds(self) -> None:
        for name, terms in self.facts.bounds.items():
            state = self.state(name, "bounds")
            for text, pair in terms.items():
                try:
                    low, high = (
                        side if end is None else float(end)
                        for end, side in zip(pair, (-np.inf, np.inf), strict=True)
                    )
                except (TypeError, ValueError):
                    low = high = np.nan
                if not (low < np.inf and high > -np.inf):
                    raise ValueError(
                        f"Knowledge.bounds: expected (low, high) for {text} in {name}', None for no bound, "
                        f"got {pair!r}."
                    )
                why = f"bounds {text} in {name}' to {pair}"
                self.bound(self.at(self.term(text, "bounds"), state), low, high, why)

    def read_nonnegative(self, kind: int = Kind.MONOMIAL, coordinate: int = -1) -> None:
        """Bounds of monomials, times a function of one coordinate where a kind is given."""
        given = [name for name in self.facts.nonnegative if name not in self.inputs]
        states = [self.state(name, "nonnegative") for name in given]
        signed = [i for i, name in enumerate(self.names) if name not in self.facts.nonnegative]
        powers = self.dictionary.exponents
        for state in states:
            why = f"nonnegative {self.names[state]}"
            for row in np.flatnonzero(powers[:, state] == 0).tolist():
                if kind in _VANISHES and coordinate == state:
                    continue
                odd = (powers[row, signed] % 2 == 1).any()
                odd |= not (kind in _POSITIVE or (kind in _RISES and coordinate in states))
                self.bound(self.at(row, state), 0.0, 0.0 if odd else np.inf, why)

    # ------------------------------------------------------------------ solution

    def contradicted(self, facts: Iterable[str], what: str) -> None:
        raise ValueError(
            f"Knowledge: expected facts that agree, got a contradiction about {what}: "
            f"{' and '.join(sorted(facts))} contradict each other."
        )

    def solved(self) -> Restriction:
        """Gauss-Jordan elimination of the equalities, high degrees first, which facts speak of least."""
        degree = np.repeat(self.dictionary.exponents.sum(axis=1), self.dim)
        while True:
            spoken = np.isfinite(self.low) | np.isfinite(self.high)
            spoken[list(self.required)] = True
            order = np.lexsort((np.arange(self.size)[::-1], -degree, spoken))
            pivots: dict[int, _Pivot] = {}
            self.eliminate(self.equalities, order, pivots)
            restriction, several = self.assembled(pivots)
            if not several:
                return restriction
            implied = self.implied(several, pivots)
            self.equalities += implied
            if not implied and not self.without_redundant(several, pivots):
                named = ", ".join(self.name_of(place) for place in several)
                facts = set().union(*(pivots[place][2] | self.bounds_of(place) for place in several))
                raise ValueError(
                    f"Knowledge: expected bounds of coefficients that equalities leave free, got {named}, "
                    f"which several others decide ({'; '.join(sorted(facts))}). Leave one of them out, or "
                    "forbid the term."
                )

    def eliminate(
        self,
        pending: Iterable[_Equality],
        order: np.ndarray,
        pivots: dict[int, _Pivot],
    ) -> None:
        for entries, value, why in pending:
            row = np.zeros(self.size)
            row[list(entries)] = list(entries.values())
            size = np.abs(row).max(initial=0.0)
            for place, (known, known_value, known_why) in pivots.items():
                if row[place] != 0.0:
                    value, why = value - row[place] * known_value, why | known_why
                    row = row - row[place] * known
            row[np.abs(row) <= ROUNDING * size] = 0.0
            if not row.any():
                if abs(value) > ROUNDING * max(size, 1.0):
                    self.contradicted(why, " and ".join(self.name_of(place) for place in entries))
                continue
            pivot = int(order[np.flatnonzero(row[order])[0]])
            row, value = row / row[pivot], value / row[pivot]
            for place, (known, known_value, known_why) in list(pivots.items()):
                if known[pivot] != 0.0:
                    pivots[place] = (
                        known - known[pivot] * row,
                        known_value - known[pivot] * value,
                        known_why | why,
                    )
            pivots[pivot] = row, value, why

    def assembled(self, pivots: dict[int, _Pivot]) -> tuple[Restriction, list[int]]:
        """The restriction, and the coefficients with bounds that depend on several free ones."""
        free = np.array([k for k in range(self.size) if k not in pivots], dtype=np.intp)
        basis, offset = np.zeros((self.size, len(free))), np.zeros(self.size)
        basis[free, range(len(free))] = 1.0
        low, high = self.low[free], self.high[free]
        required = np.isin(free, list(self.required))
        several = []
        for place, (row, value, why) in pivots.items():
            offset[place], basis[place] = value, -row[free]
            touched = np.flatnonzero(basis[place])
            bounds = self.low[place], self.high[place]
            if not len(touched):
                facts = {*why, *(d[place] for d in (self.why_low, self.why_high) if place in d)}
                if not bounds[0] - ROUNDING <= value <= bounds[1] + ROUNDING:
                    self.contradicted(facts, self.name_of(place))
                if place in self.required and value == 0.0:
                    self.contradicted({*why, self.required[place]}, self.name_of(place))
            elif len(touched) == 1:
                k, factor = touched[0], basis[place, touched[0]]
                ends = sorted((end - value) / factor for end in bounds)
                low[k], high[k] = max(low[k], ends[0]), min(high[k], ends[1])
                required[k] |= place in self.required
                if low[k] > high[k] + ROUNDING:
                    self.contradicted({*why, *self.bounds_of(place, int(free[k]))}, self.name_of(place))
            else:
                required[touched] |= place in self.required
                if np.isfinite(bounds).any():
                    several.append(place)
        restriction = Restriction(
            offset.reshape(-1, self.dim),
            basis,
            free,
            low,
            np.maximum(low, high),
            required,
            self.facts.independent(self.names[: self.dim], self.inputs),
            self.beyond if self.facts.conserved or self.facts.nonnegative else None,
        )
        return restriction, several

    def bounds_of(self, *places: int) -> set[str]:
        """Facts that bound coefficients."""
        return {why[p] for p in places for why in (self.why_low, self.why_high) if p in why}

    def implied(self, several: list[int], pivots: dict[int, _Pivot]) -> list[_Equality]:
        """Equalities that bounds amount to together, as those of numbers that sum to zero."""
        found: list[_Equality] = []
        for place in several:
            low, high = self.range_of(place, pivots)
            if abs(high - low) <= _SAME_NUMBER:
                facts = pivots[place][2] | self.bounds_of(place)
                found.append(({place: 1.0}, round(low, 12), facts))
        return found

    def without_redundant(self, several: list[int], pivots: dict[int, _Pivot]) -> bool:
        """Leave out bounds that follow from equalities and other bounds; whether there were any.

        Of ``a = b + c`` with none of them negative, the bound of a says nothing: a may depend on b and c.
        """
        together = np.isin(np.arange(self.size), several)
        for _ in range(self.size):
            rows = [row != 0.0 for row, _, _ in pivots.values() if (row[together] != 0.0).any()]
            more = np.logical_or.reduce([together, *rows])
            if (more == together).all():
                break
            together = more
        found = False
        for place in np.flatnonzero(together & (np.isfinite(self.low) | np.isfinite(self.high))).tolist():
            bounds = self.low[place], self.high[place]
            self.low[place], self.high[place] = -np.inf, np.inf
            low, high = self.range_of(place, pivots)
            if low >= bounds[0] - _SAME_NUMBER and high <= bounds[1] + _SAME_NUMBER:
                found = True
            else:
                self.low[place], self.high[place] = bounds
        return found

    def range_of(self, place: int, pivots: dict[int, _Pivot]) -> tuple[float, float]:
        """The least and the largest value of a coefficient that equalities and bounds allow."""
        from scipy.optimize import linprog

        rows = np.stack([row for row, _, _ in pivots.values()])
        values = np.array([value for _, value, _ in pivots.values()])
        limits = np.stack([self.low, self.high], axis=1)
        ends = []
        for sign in (1.0, -1.0):
            cost = np.zeros(self.size)
            cost[place] = sign
            answer = linprog(cost, A_eq=rows, b_eq=values, bounds=limits)
            if answer.status == 2:
                everything = set().union(*(why for _, _, why in pivots.values()))
                self.contradicted(everything | self.bounds_of(*range(self.size)), self.name_of(place))
            ends.append(sign * answer.fun if answer.status == 0 else -sign * np.inf)
        return ends[0], ends[1]
