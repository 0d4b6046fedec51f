"""PCA: exact on data of low rank, equal to the covariance's eigenvectors, lifted with names and units."""

import numpy as np
import pytest

from fim_dynsys.errors import DataWarning
from fim_dynsys.reduction import PCAReduction
from fim_dynsys.trajectories.container import Trajectories

T = np.linspace(0, 20, 300)
LATENT = np.column_stack([np.sin(T), np.cos(0.7 * T)])
MIXING = np.random.default_rng(0).normal(size=(2, 5))
DATA = Trajectories.from_arrays(
    [LATENT[:200] @ MIXING + 3, LATENT[200:] @ MIXING + 3],
    [T[:200], T[200:]],
    state_names=list("abcde"),
    coords={"mu": [1, 2]},
    units={"a": "m", "t": "s"},
)


@pytest.mark.parametrize("standardise", [True, False])
def test_data_of_rank_two_are_lifted_exactly(standardise):
    pca = PCAReduction.fit(DATA, 2, standardise)
    reduced = pca.reduce(DATA)
    assert reduced.state_names == ("pc0", "pc1") and reduced.dim == pca.n_components == 2
    assert reduced.units == {"t": "s"} and reduced.coords["mu"].tolist() == [1, 2]
    np.testing.assert_array_equal(reduced.t, DATA.t)
    lifted = pca.lift(reduced)
    np.testing.assert_allclose(lifted.x, DATA.x, rtol=0, atol=1e-13)
    assert lifted.state_names == DATA.state_names and lifted.units == DATA.units
    np.testing.assert_allclose(pca.explained.sum(), 1, rtol=1e-14)


def test_components_are_the_eigenvectors_of_the_covariance():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) + 5
    pca = PCAReduction.fit(Trajectories.from_arrays(x, 0.1), 3, standardise=False)
    values, vectors = np.linalg.eigh(np.cov(x.T))
    np.testing.assert_allclose(pca.explained, values[::-1] / values.sum(), rtol=1e-12)
    overlap = np.abs(pca.components @ vectors[:, ::-1])
    np.testing.assert_allclose(overlap, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(pca.components @ pca.components.T, np.eye(3), atol=1e-14)


def test_lifting_is_the_best_affine_approximation():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 4)) * [4, 3, 0.2, 0.1]
    pca = PCAReduction.fit(Trajectories.from_arrays(x, 0.1), 2, standardise=False)
    lost = np.sum((pca.lift(pca.reduce(x)) - x) ** 2) / np.sum((x - x.mean(axis=0)) ** 2)
    np.testing.assert_allclose(lost, 1 - pca.explained.sum(), rtol=1e-12)  # Eckart and Young


def test_standardised_components_do_not_depend_on_units():
    scale = np.array([1, 10, 1e-3, 5, 1e6])
    other = DATA.with_x(DATA.x * scale + 7)
    z, z_other = (PCAReduction.fit(data, 2).reduce(data).x for data in (DATA, other))
    # The shift of 7 against values of 1e-3 costs four digits of float64's sixteen.
    np.testing.assert_allclose(z_other, z, rtol=0, atol=1e-10)


def test_signs_are_fixed():
    pca = PCAReduction.fit(DATA, 2)
    turned = PCAReduction.fit(DATA[::-1], 2)
    np.testing.assert_allclose(turned.components, pca.components, atol=1e-12)
    assert (pca.components[[0, 1], np.abs(pca.components).argmax(axis=1)] > 0).all()


def test_points_and_trajectories_agree():
    pca = PCAReduction.fit(DATA, 2)
    z = pca.reduce(DATA.x[0])
    np.testing.assert_array_equal(z, pca.reduce(DATA).x[0])
    np.testing.assert_allclose(pca.reduce(DATA.x[0, 5]), z[5], rtol=0, atol=1e-14)
    np.testing.assert_allclose(pca.lift(z), DATA.x[0], rtol=0, atol=1e-13)


def test_constant_states_are_lifted_to_their_value():
    x = np.column_stack([LATENT, np.full(300, 1e5 / 3)])
    pca = PCAReduction.fit(Trajectories.from_arrays(x, T), 2)
    np.testing.assert_allclose(pca.components[:, 2], 0, atol=1e-9)
    np.testing.assert_allclose(pca.lift(pca.reduce(x)), x, rtol=1e-12, atol=1e-12)


def test_incomplete_samples_are_left_out_with_a_warning_and_stay_missing():
    x = DATA.x[0].copy()
    x[3, 1] = np.nan
    holes = Trajectories.from_arrays(x, T[:200], state_names=list("abcde"))
    with pytest.warns(DataWarning, match="PCAReduction needs complete samples: dropped 1 of 200"):
        pca = PCAReduction.fit(holes, 2)
    np.testing.assert_array_equal(np.isnan(pca.reduce(holes).x[0]).all(axis=1), np.arange(200) == 3)


@pytest.mark.parametrize("n_components", [0, 6, 2.5, True, None])
def test_numbers_of_components_that_do_not_fit_are_refused(n_components):
    message = rf"^PCAReduction.fit: expected n_components from 1 to 5 .* got {n_components}; choose fewer"
    with pytest.raises(ValueError, match=message):
        PCAReduction.fit(DATA, n_components)


def test_other_bad_input_is_refused():
    pca = PCAReduction.fit(DATA, 2)
    with pytest.raises(ValueError, match=r"reduce: expected the states \['a'.*got \['b', 'a'\]"):
        pca.reduce(DATA.select_states(["b", "a"]))
    with pytest.raises(ValueError, match=r"lift: expected the states \['pc0', 'pc1'\]"):
        pca.lift(DATA)
    with pytest.raises(
        ValueError, match=r"reduce: expected real points of shape \(\.\.\., 5\), got \(4, 3\)"
    ):
        pca.reduce(np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"from 1 to 0 for 1 complete samples"):
        PCAReduction.fit(DATA[0].select_samples([[0]]), 1)
    with pytest.raises(ValueError, match="expected states that change, got the same sample 300 times"):
        PCAReduction.fit(Trajectories.from_arrays(np.ones((300, 2)), T), 1)
