"""What a model was told, to the last digit of the field it infers."""

import numpy as np

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.search.knowledge import Knowledge


def honoured(
    field: DictionaryField | DrivenField, knowledge: Knowledge | None, degree: int
) -> DictionaryField | DrivenField:
    """A field that satisfies what is known but for rounding, without it.

    Searches work in units of their own; coming back from them costs the last digit.

    Parameters
    ----------
    field : DictionaryField, or DrivenField where nothing is known
        In the units of the data.
    knowledge : Knowledge or None
        What it was searched with.
    degree : int
        Of the monomials that were searched.

    Returns
    -------
    DictionaryField or DrivenField
        The given one where nothing is known.
    """
    if knowledge is None:
        return field
    assert isinstance(field, DictionaryField)  # inputs and knowledge exclude each other
    own = Dictionary.polynomial(field.dim, degree)
    terms, (_, rows) = union([own, field.dictionary])
    known = knowledge.restriction(own, field.state_names).extended(own, terms)
    values = np.zeros((len(terms), field.dim))
    values[rows] = field.coefficients
    values = known.clipped(values)[rows]
    return DictionaryField(field.dictionary, values, context=field.context, fit_info=field.fit_info)
