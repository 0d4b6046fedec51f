"""What tests of training share."""

from multiprocessing.context import ForkServerContext

import pytest
import torch


@pytest.fixture(scope="session")
def forks() -> ForkServerContext:
    """Starts processes from one that has imported torch, which takes seconds, once for all tests."""
    context = torch.multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.pretrain"])
    return context
