"""Sizes of our operator's network: what its configuration holds and the shapes of its parameters."""

from dataclasses import dataclass
from typing import ClassVar

from fim_dynsys.models.fim_ode.ranges import check_numbers, check_sizes

LARGEST_DIM = 6
"""Largest dimension that is taken: the parameters know none, but monomials of degree 3 become many."""
LARGEST_FLOOR = 20.0
"""Log noise floor at which all rows weigh the same."""
LOCAL_WIDTH = 24
"""Hidden width of the corrections at every sample."""
N_STATISTICS, N_LOCAL_STATISTICS, N_TOKEN_STATISTICS = 8, 2, 9
"""Features of a coordinate, a sample and a token beside those of the bank's levels."""
_RANGES = {
    "max_dim": (1, 12),
    "degree": (1, 5),
    "n_segments": (1, 64),
    "n_updates": (0, 32),
    "context_width": (1, 4096),
    "token_width": (1, 4096),
}


@dataclass(frozen=True)
class AmortisedConfig:
    """Sizes of an `AmortisedNetwork`.

    `max_dim` is the largest dimension that is trained on; up to `LARGEST_DIM` all are taken. `widths` are the
    bank's bandwidths in mean sampling gaps. Keys that are `retired` stand empty in files of earlier releases.
    """

    max_dim: int = 3
    degree: int = 3
    widths: tuple[float, ...] = (0.8, 1.6, 3.0, 6.0, 12.0, 24.0)
    n_segments: int = 5
    n_updates: int = 4
    context_width: int = 96
    token_width: int = 64
    retired: ClassVar[tuple[str, ...]] = ("functions", "products")

    def __post_init__(self) -> None:
        check_sizes(self, _RANGES)
        check_numbers(self, "widths", 0.01, 1e4, (4, 32))

    @property
    def n_levels(self) -> int:
        """Levels of the smoothing bank, the raw samples among them."""
        return len(self.widths) + 1

    @property
    def n_features(self) -> int:
        """Numbers that describe a coordinate of a context."""
        return 2 * len(self.widths) + self.n_levels + N_STATISTICS

    @property
    def n_local_features(self) -> int:
        """Numbers that describe a sample of a coordinate."""
        return 2 * (len(self.widths) - 1) + N_LOCAL_STATISTICS

    @property
    def largest_dim(self) -> int:
        """Largest dimension that the network takes."""
        return max(self.max_dim, LARGEST_DIM)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter by its name: those of `AmortisedNetwork`'s state dict."""
        context, token, levels = self.context_width, self.token_width, self.n_levels
        layers: dict[str, tuple[int, ...]] = {
            "context.local.0": (context, self.n_features),
            "context.local.2": (context, context),
            "context.joint.0": (context, 2 * context),
            "context.joint.2": (context, context),
            "context.head": (2 * levels + 1 + 3, context),
            "local.embed": (LOCAL_WIDTH, self.n_local_features),
            "local.context": (LOCAL_WIDTH, context),
            "local.out": (2 * levels, LOCAL_WIDTH),
            "start": (1, context),
        }
        for k in range(self.n_updates):
            layers |= {
                f"updates.{k}.embed": (token, N_TOKEN_STATISTICS + 2 * context),
                f"updates.{k}.mix.0": (2 * token, 3 * token),
                f"updates.{k}.mix.2": (token, 2 * token),
                f"updates.{k}.norm": (token,),
                f"updates.{k}.out": (1, token),
            }
        weights = {f"{name}.weight": shape for name, shape in layers.items()}
        biases = {f"{name}.bias": shape[:1] for name, shape in layers.items() if name != "local.context"}
        return weights | biases
