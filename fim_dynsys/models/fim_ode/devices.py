"""Our operator's inference on other devices than the CPU, in torch."""

from collections.abc import Sequence

import torch

from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.batching import padded_batch
from fim_dynsys.models.fim_ode.inference import Estimate, Samples
from fim_dynsys.models.fim_ode.networks import build_network


class DeviceInference:
    """`inference.AmortisedInference` on a device, all contexts at once.

    Parameters
    ----------
    path : str
        Weights file of our operator.
    device : str
        As torch names it.
    prefix : str
        Of the network's tensors in the file.

    Raises
    ------
    FileNotFoundError, ValueError
        As `build_network`; ValueError also for a device that is not there.
    """

    def __init__(self, path: str, device: str, prefix: str = "") -> None:
        self.device = checked_device("fim-ode", device)
        network, _ = build_network(path, prefix)
        assert isinstance(network, AmortisedNetwork)
        self.config = network.config
        self._network = network.to(self.device).requires_grad_(False)

    def estimates(self, contexts: Sequence[Samples]) -> list[Estimate]:
        """What the operator says of contexts of one dimension."""
        batch = padded_batch(contexts, contexts[0][0][1].shape[1])
        found = self._network.infer_coefficients(*(torch.as_tensor(p, device=self.device) for p in batch))
        return [Estimate(*parts) for parts in zip(*(part.cpu().numpy() for part in found), strict=True)]


def checked_device(caller: str, device: str) -> torch.device:
    """The device of a name; ValueError where it is not there or does not hold float64."""
    try:
        where = torch.device(device)
        torch.empty(0, dtype=torch.float64, device=where)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"{caller}: expected a torch device that is there and holds float64, got {device!r} ({error}); "
            "device='cpu' always works."
        ) from error
    return where
