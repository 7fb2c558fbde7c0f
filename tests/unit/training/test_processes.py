"""What processes that train together agree on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from denseam.training import processes


@pytest.mark.parametrize("value", [0, -1, 2**24 + 1, 2**40, 2**40 + 1, True, False, 0.1, 1e300])
def test_a_value_arrives_as_it_was_sent(value, monkeypatch):
    """Through JAX's arrays, which without x64 hold 32 bits."""
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    sent = []

    def broadcast(array):
        sent.append(array)
        return np.asarray(jnp.asarray(array) + 0)

    monkeypatch.setattr(processes.multihost_utils, "broadcast_one_to_all", broadcast)
    received = processes.as_the_first_says(value)
    assert sent
    assert received == value
    assert type(received) is type(value)
