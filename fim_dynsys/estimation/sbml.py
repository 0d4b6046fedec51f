"""Models in SBML: species, reactions and rules as equations."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fim_dynsys.estimation.programs import TIME

if TYPE_CHECKING:
    from sympy import Expr

_INSTALL = "run `pip install '.[petab]'` in a clone of the repository"
_DEEPEST = 50  # of assignments that depend on others


@dataclass(frozen=True, eq=False)
class SBMLModel:
    """Equations of a model in SBML.

    Attributes
    ----------
    states : tuple of str
        Species and parameters that change, by their identifiers; species as concentrations, unless they are
        declared as amounts.
    equations : tuple of sympy.Expr
        Right-hand sides in the states, parameters and the time ``t``; assignment rules are put in.
    initial : dict
        First values of the states, in parameters.
    parameters : dict
        Values of all others.
    assigned : dict
        What assignment rules say of other names, by which observables are written.
    """

    states: tuple[str, ...]
    equations: "tuple[Expr, ...]"
    initial: "Mapping[str, Expr]"
    parameters: Mapping[str, float]
    assigned: "Mapping[str, Expr]"

    @property
    def expressions(self) -> "dict[str, Expr]":
        """Right-hand sides by state, as ``load("equations", expressions=...)`` takes them."""
        return dict(zip(self.states, self.equations, strict=True))


def from_sbml(path: str | os.PathLike) -> SBMLModel:
    """Read a model in SBML.

    Reactions, rate and assignment rules, initial assignments, functions and units of any level are read. What
    is not supported is refused by name: events, delays, algebraic rules, and compartments that change.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    SBMLModel

    Raises
    ------
    ImportError
        Where python-libsbml is not installed.
    ValueError
        For a file that is none, or holds what is not supported.

    References
    ----------
    M. Hucka et al., The Systems Biology Markup Language (SBML): language specification for level 3 version 2
    core, J. Integr. Bioinform. 15 (2018) 20170081.
    """
    document = _document(path)
    model = document.getModel()
    _refuse(path, model)
    return _Reading(path, model).model()


def _document(path: str | os.PathLike) -> Any:
    try:
        import libsbml
    except ImportError as error:
        raise ImportError(
            f"from_sbml: expected python-libsbml, which is not installed; {_INSTALL}"
        ) from error
    document = libsbml.readSBMLFromFile(os.fspath(path))
    errors = [document.getError(k) for k in range(document.getNumErrors())]
    fatal = [e.getMessage().strip() for e in errors if e.getSeverity() >= libsbml.LIBSBML_SEV_ERROR]
    if document.getModel() is None or fatal:
        said = fatal[0] if fatal else "no model"
        raise ValueError(f"from_sbml: expected a model in SBML, got {os.fspath(path)!r}: {said}")
    for option in ("promoteLocalParameters", "expandFunctionDefinitions"):
        properties = libsbml.ConversionProperties()
        properties.addOption(option)
        if document.convert(properties) != libsbml.LIBSBML_OPERATION_SUCCESS:
            raise ValueError(f"from_sbml: expected a model whose functions can be put in, got {path!r}.")
    return document


def _refuse(path: str | os.PathLike, model: Any) -> None:
    found = []
    if model.getNumEvents():
        found.append(f"{model.getNumEvents()} events (write them as events= of the model 'equations')")
    if any(model.getRule(k).isAlgebraic() for k in range(model.getNumRules())):
        found.append("algebraic rules")
    if any(r.isSetFast() and r.getFast() for r in map(model.getReaction, range(model.getNumReactions()))):
        found.append("fast reactions")
    compartments = {c.getId() for c in map(model.getCompartment, range(model.getNumCompartments()))}
    ruled = {model.getRule(k).getVariable() for k in range(model.getNumRules())}
    if compartments & ruled:
        found.append(f"compartments that change ({', '.join(sorted(compartments & ruled))})")
    if found:
        raise ValueError(f"from_sbml: {os.fspath(path)!r} holds what is not supported: {', '.join(found)}.")


class _Reading:
    """One model, as it is read."""

    def __init__(self, path: str | os.PathLike, model: Any) -> None:
        self.path, self.source = os.fspath(path), model
        rules = [model.getRule(k) for k in range(model.getNumRules())]
        self.assigned = {r.getVariable(): self.math(r.getMath()) for r in rules if r.isAssignment()}
        self.rated = {r.getVariable(): self.math(r.getMath()) for r in rules if r.isRate()}
        first = [model.getInitialAssignment(k) for k in range(model.getNumInitialAssignments())]
        self.first = {a.getSymbol(): self.math(a.getMath()) for a in first}
        compartments = [model.getCompartment(k) for k in range(model.getNumCompartments())]
        self.sizes = {c.getId(): c.getSize() if c.isSetSize() else 1.0 for c in compartments}
        own = [model.getParameter(k) for k in range(model.getNumParameters())]
        self.values = {p.getId(): p.getValue() for p in own if p.isSetValue()} | self.sizes
        self.species = {s.getId(): s for s in map(model.getSpecies, range(model.getNumSpecies()))}

    def math(self, node: Any) -> "Expr":
        """An expression."""
        return _math(node, self.path)

    def symbol(self, name: str) -> "Expr":
        """A name."""
        import sympy

        return sympy.Symbol(name, real=True)

    def resolved(self, expression: "Expr", table: "Mapping[str, Expr]") -> "Expr":
        """An expression with what a table says of its names, until nothing is left to say."""
        known = {self.symbol(name): value for name, value in table.items()}
        for _ in range(_DEEPEST):
            if not expression.free_symbols & set(known):
                return expression
            expression = expression.xreplace(known)
        raise ValueError(
            f"from_sbml: expected assignments that do not depend on themselves in {self.path!r}."
        )

    def model(self) -> SBMLModel:
        """The equations."""
        import sympy

        rates: dict[str, Expr] = {
            name: sympy.Integer(0)
            for name, s in self.species.items()
            if not s.getConstant() and name not in self.assigned
        }
        for reaction in map(self.source.getReaction, range(self.source.getNumReactions())):
            law = self.math(reaction.getKineticLaw().getMath())
            sides = (
                (reaction.getReactant, reaction.getNumReactants(), -1.0),
                (reaction.getProduct, reaction.getNumProducts(), 1.0),
            )
            for get, count, sign in sides:
                for reference in map(get, range(count)):
                    name = reference.getSpecies()
                    s = self.species[name]
                    if name not in rates or s.getBoundaryCondition():
                        continue
                    per = 1 if s.getHasOnlySubstanceUnits() else self.symbol(s.getCompartment())
                    rates[name] = rates[name] + sign * self.stoichiometry(reference) * law / per
        rates |= self.rated
        fixed = {name: value for name, value in self.values.items() if name not in {*rates, *self.assigned}}
        # constants that are functions of others at the start
        constants = {name: value for name, value in self.first.items() if name not in rates}
        fixed = {name: value for name, value in fixed.items() if name not in constants}
        table = {**self.assigned, **constants}
        states = tuple(name for name, rate in rates.items() if rate != 0 or name in self.rated)
        still = {name: self.start(name) for name in rates if name not in states}
        table |= still
        for name in self.species:
            if name not in rates and name not in self.assigned:
                table[name] = self.start(name)
        zero = {TIME: sympy.Integer(0)}
        initial = {}
        for name in states:
            start = self.resolved(self.start(name), {**table, **{n: self.start(n) for n in states}, **zero})
            initial[name] = start
        equations = tuple(self.resolved(rates[name], table) for name in states)
        assigned = {name: self.resolved(value, table) for name, value in table.items()}
        return SBMLModel(states, equations, initial, fixed, assigned)

    def start(self, name: str) -> "Expr":
        """The first value of a species or a parameter."""
        import sympy

        if name in self.first:
            return self.first[name]
        s = self.species.get(name)
        if s is None:
            return sympy.Float(self.values[name])
        amount = s.getHasOnlySubstanceUnits()
        size = self.symbol(s.getCompartment())
        if s.isSetInitialAmount():
            return sympy.Float(s.getInitialAmount()) / (1 if amount else size)
        value = s.getInitialConcentration() if s.isSetInitialConcentration() else 0.0
        return sympy.Float(value) * (size if amount else 1)

    def stoichiometry(self, reference: Any) -> float:
        """A constant stoichiometry."""
        if reference.isSetStoichiometryMath() or (reference.getId() and reference.getId() in self.assigned):
            raise ValueError(f"from_sbml: expected constant stoichiometries, got others in {self.path!r}.")
        return float(reference.getStoichiometry())


def _math(node: Any, path: str) -> "Expr":
    """A formula as sympy."""
    import libsbml
    import sympy

    kind = node.getType()
    if node.isNumber():
        return sympy.Integer(node.getInteger()) if node.isInteger() else sympy.Float(node.getValue())
    if kind == libsbml.AST_NAME_TIME:
        return sympy.Symbol(TIME, real=True)
    if kind == libsbml.AST_NAME:
        return sympy.Symbol(node.getName(), real=True)
    if kind in (libsbml.AST_CONSTANT_PI, libsbml.AST_CONSTANT_E):
        return sympy.pi if kind == libsbml.AST_CONSTANT_PI else sympy.E
    if kind in (libsbml.AST_CONSTANT_TRUE, libsbml.AST_CONSTANT_FALSE):
        return sympy.true if kind == libsbml.AST_CONSTANT_TRUE else sympy.false
    parts = [_math(node.getChild(k), path) for k in range(node.getNumChildren())]
    if kind == libsbml.AST_MINUS:
        return -parts[0] if len(parts) == 1 else parts[0] - parts[1]
    if kind == libsbml.AST_FUNCTION_LOG:
        return (
            sympy.log(parts[-1]) / sympy.log(parts[0])
            if len(parts) == 2
            else sympy.log(parts[0]) / sympy.log(10)
        )
    if kind == libsbml.AST_FUNCTION_ROOT:
        return parts[-1] ** (1 / parts[0]) if len(parts) == 2 else sympy.sqrt(parts[0])
    if kind == libsbml.AST_FUNCTION_PIECEWISE:
        pairs = [(parts[k], parts[k + 1]) for k in range(0, len(parts) - 1, 2)]
        return sympy.Piecewise(*pairs, *([(parts[-1], True)] if len(parts) % 2 else []))
    made = _operations().get(kind)
    if made is None:
        raise ValueError(
            f"from_sbml: {path!r} holds what is not supported: {libsbml.formulaToL3String(node)[:60]!r}."
        )
    return made(*parts)


def _operations() -> dict[int, Any]:
    """What stands for each kind of operation."""
    import libsbml
    import sympy

    names = {
        "PLUS": lambda *a: sympy.Add(*a),
        "TIMES": lambda *a: sympy.Mul(*a),
        "DIVIDE": lambda a, b: a / b,
        "POWER": lambda a, b: a**b,
        "FUNCTION_POWER": lambda a, b: a**b,
        "FUNCTION_EXP": sympy.exp,
        "FUNCTION_LN": sympy.log,
        "FUNCTION_ABS": sympy.Abs,
        "FUNCTION_SIN": sympy.sin,
        "FUNCTION_COS": sympy.cos,
        "FUNCTION_TAN": sympy.tan,
        "FUNCTION_ARCSIN": sympy.asin,
        "FUNCTION_ARCCOS": sympy.acos,
        "FUNCTION_ARCTAN": sympy.atan,
        "FUNCTION_SINH": sympy.sinh,
        "FUNCTION_COSH": sympy.cosh,
        "FUNCTION_TANH": sympy.tanh,
        "FUNCTION_MIN": sympy.Min,
        "FUNCTION_MAX": sympy.Max,
        "RELATIONAL_GT": sympy.Gt,
        "RELATIONAL_GEQ": sympy.Ge,
        "RELATIONAL_LT": sympy.Lt,
        "RELATIONAL_LEQ": sympy.Le,
        "LOGICAL_AND": sympy.And,
        "LOGICAL_OR": sympy.Or,
        "LOGICAL_NOT": sympy.Not,
    }
    return {getattr(libsbml, f"AST_{name}"): made for name, made in names.items()}
