"""Models whose fields have a posterior of their own."""

from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.members import check_members


class PosteriorModel(VectorFieldModel):
    """A model whose ensembles are drawn by its field, see `VectorField.draws`; no data are resampled."""

    def ensemble(self, n: int = 20, seed: int = 0, progress: bool | None = None) -> EnsembleField:
        """Whole functions drawn from the posterior.

        Parameters
        ----------
        n : int
            Number of members.
        seed : int
            Equal seeds give equal members.
        progress : bool, optional
            Without effect: draws take no time.

        Returns
        -------
        EnsembleField
        """
        field = self._fitted_field()
        check_members(self._caller, n, seed)
        members = field.draws(n, seed)
        assert isinstance(members, EnsembleField)
        return members
