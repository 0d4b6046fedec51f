"""The pretrained operator with its search, and what is asked beside it."""

from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.models.symbolic import SymbolicModel
from fim_dynsys.search.knowledge import Knowledge


def test_alternatives_know_what_the_model_is_told():
    told = Knowledge(nonnegative=["x0"])
    operator, functions = FIMODE(knowledge=told).alternatives()
    assert not operator.refine and operator.knowledge is told
    assert isinstance(functions, SymbolicModel) and functions.knowledge is told
    assert FIMODE(refine=False).alternatives()[0].refine
