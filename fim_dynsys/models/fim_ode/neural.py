"""A network of the FIM-ODE paper's design that we trained: its weights are part of the package."""

import os

from fim_dynsys.delta import Delta
from fim_dynsys.models.fim_ode.card import read_card
from fim_dynsys.models.fim_ode.decoded import DecodedFIMODE
from fim_dynsys.models.fim_ode.published_operators import DecodedOperator, decoded_operator
from fim_dynsys.models.fim_ode.weights import shipped


class NeuralFIMODE(DecodedFIMODE):
    """A network of the FIM-ODE paper's design and size, trained by us; above all a start for `finetune`.

    What is inferred is a field that the network decodes point by point; its equations are a distillation. It
    was trained for half an hour on a GPU, on noise-free and noisy samples of one to four trajectories, and
    states no errors: for answers without fine-tuning, use `FIMODE`. One point of the field takes
    milliseconds, many together less each; simulate with ``rtol=1e-5`` where that suffices. Contexts, units
    and what is saved: as of `PublishedFIMODE`, which also takes checkpoints of your own.

    Parameters
    ----------
    precision : {"float32", "float64"}
        Type in which contexts are encoded. Fields are decoded in float64.
    device : str
        Where to compute, as torch names it.
    delta : path-like or Delta, optional
        What `finetune` changed of the weights.

    Examples
    --------
    >>> import fim_dynsys
    >>> t = np.linspace(0.0, 6.0, 80)
    >>> x = np.exp(-0.2 * t)[:, None] * np.column_stack([np.cos(t), -np.sin(t)])
    >>> fim_dynsys.load("fim-ode-neural").fit(x, t).predict(x).shape
    (80, 2)
    """

    name = "fim-ode-neural"

    @property
    def _untuned(self) -> DecodedOperator:
        return decoded_operator(self.name, shipped(self.name), None, self.precision, str(self.device))

    def card(self) -> str:
        """Model card of the shipped weights, in Markdown; see `FIMODE.card`."""
        return read_card(self.name, self._untuned.version)


def fim_ode_neural(
    precision: str = "float32", device: str = "cpu", delta: str | os.PathLike | Delta | None = None
) -> NeuralFIMODE:
    """A network of the FIM-ODE paper's design, trained by us; see `NeuralFIMODE`.

    Returns
    -------
    NeuralFIMODE
        Not yet fitted; the weights have been read.

    Raises
    ------
    FileNotFoundError
        If there is no file at `delta`.
    ValueError
        For an unknown precision, a device that is not there, or a delta of other weights.
    """
    model = NeuralFIMODE(precision, device, delta)
    _ = model.operator  # what cannot be read is an error now, not at the first fit
    return model
