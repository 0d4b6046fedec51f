"""Amortised sparse regression: a network that chooses how a dictionary regression, solved inside it, is done.

A field is linear in a dictionary of monomials.
Regression is cheap and exact; what a user would tune by hand is how much to smooth, which residual to trust
and which terms are there. The network learns those choices from a prior over systems, the regression is
solved in closed form, and training differentiates through the solve.

The pipeline of one forward pass, for B contexts of K trajectories with L samples in d coordinates:

1. a bank of local cubic fits gives states and slopes at several bandwidths (`smoothing_bank`);
2. states are divided by their root mean square, time by the time in which the state travels one standard
   deviation (`Normalisation`), so that units cancel exactly;
3. features per coordinate go through two small networks with pooling over coordinates; they give the mixture
   of bandwidths (corrected at every sample by what the bandwidths say there), the noise floor of the row
   weights and the weight of three forms of the regression (derivative; integral over the whole span;
   integral over segments with free starts);
4. ridge solves alternate with learned updates of every term's log precision, computed from tokens per
   (coordinate, term) that see the coefficient, its posterior variance and the context.

The answer is a polynomial of degree 3 per coordinate. Limits: up to `LARGEST_DIM` coordinates (tokens are per
coordinate and term, so weights trained in one to three are weights for all); trained on 80-200 samples per
trajectory and multiplicative noise up to 6 %. Invariant to the order of trajectories, padding,
the other members of a batch and the units of states and time; equivariant to the order of coordinates.
Cost: the network and the solves do not depend on the number of samples, the smoothing grows linearly.
On the CPU the package infers by `inference`, the same numbers without torch; this file is what is trained.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from fim_dynsys.models.fim_ode.bank import smoothing_bank
from fim_dynsys.models.fim_ode.configuration import (
    LARGEST_FLOOR,
    LOCAL_WIDTH,
    N_TOKEN_STATISTICS,
    AmortisedConfig,
)
from fim_dynsys.models.fim_ode.monomials import MonomialTable
from fim_dynsys.models.fim_ode.ridge import residual_variance, ridge_solve


class Encoding(NamedTuple):
    """What the operator keeps of B contexts: fields in normalised units and the units themselves."""

    coefficients: list[Tensor]  # one (B, m, d) per solve, the last one being the answer
    variances: Tensor  # (B, m, d) posterior variances of the last solve
    information: Tensor  # (B, d, m, m) what the data say of the coefficients: weighted normal matrices
    scale: Tensor  # (B, d) unit of each state
    time_unit: Tensor  # (B,)


class Estimate(NamedTuple):
    """Coefficients of B contexts in the units of the data."""

    solves: Tensor  # (B, S, m, d), the last solve being the answer
    variances: Tensor  # (B, m, d) posterior variances of the last solve
    information: Tensor  # (B, d, m, m)
    scale: Tensor  # (B, d) unit of each state, which the factors inside functions are of


class Normalisation(NamedTuple):
    """Units that make a context dimensionless."""

    scale: Tensor  # (B, d) root mean square of each coordinate
    deviation: Tensor  # (B, d) standard deviation of each coordinate, in units of `scale`
    time_unit: Tensor  # (B,)


def _mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for left, right in pairwise(sizes):
        layers += [nn.Linear(left, right), nn.GELU()]
    return nn.Sequential(*layers[:-1])


def _masked_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Mean of (B, ..., N, d) over its N axis with weights (B, N); (B, ..., d)."""
    shape = (weight.shape[0], *[1] * (values.ndim - 3), weight.shape[1], 1)
    return (values * weight.view(shape)).sum(-2) / weight.sum(-1).view(shape[0], *[1] * (values.ndim - 2))


class ContextNetwork(nn.Module):
    """Features per coordinate to the choices of the regression, pooled over coordinates."""

    def __init__(self, n_features: int, width: int, n_levels: int):
        super().__init__()
        self.n_levels = n_levels
        self.local = _mlp(n_features, width, width)
        self.joint = _mlp(2 * width, width, width)
        self.head = nn.Linear(width, 2 * n_levels + 1 + 3)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """(B, d, F) to embedding, level mixtures of state and slope, log floor, log weights of the forms."""
        local = self.local(features)
        pooled = local.mean(1, keepdim=True).expand_as(local)
        embedding = self.joint(torch.cat([local, pooled], -1))
        out = self.head(embedding)
        n = self.n_levels
        return embedding, out[..., :n], out[..., n : 2 * n], out[..., 2 * n] - 3.0, out[..., 2 * n + 1 :]


class LocalMixture(nn.Module):
    """Where along a path other bandwidths serve better: corrections to the level mixtures at every sample."""

    def __init__(self, n_features: int, n_levels: int, context_width: int):
        super().__init__()
        self.embed = nn.Linear(n_features, LOCAL_WIDTH)
        self.context = nn.Linear(context_width, LOCAL_WIDTH, bias=False)
        self.out = nn.Linear(LOCAL_WIDTH, 2 * n_levels)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, features: Tensor, embedding: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, N, d, F) and embedding (B, d, C) to logits (B, N, d, L) of states and of slopes."""
        hidden = gelu(self.embed(features) + self.context(embedding)[:, None])
        return self.out(hidden).chunk(2, -1)


class PrecisionUpdate(nn.Module):
    """One learned step on the tokens of all (coordinate, term) pairs."""

    def __init__(self, n_features: int, token_width: int, context_width: int):
        super().__init__()
        self.embed = nn.Linear(n_features + 2 * context_width, token_width)
        self.mix = _mlp(3 * token_width, 2 * token_width, token_width)
        self.norm = nn.LayerNorm(token_width)
        self.out = nn.Linear(token_width, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self, hidden: Tensor, features: Tensor, factors: Tensor, mine: Tensor
    ) -> tuple[Tensor, Tensor]:
        """New hidden (B, d, m, H) and the change of the log precision (B, d, m).

        Inputs are features `own` to a token, `factors` shared by a term's tokens (B, 1, m, C) and `mine`
        shared by a coordinate's (B, d, 1, C). Linear maps act before anything is repeated: the same numbers
        as on the concatenation, at a third of the cost.
        """
        token = gelu(hidden + _linear_of_parts(self.embed, features, factors, mine))
        first, *rest = self.mix
        assert isinstance(first, nn.Linear)
        over_terms, over_states = token.mean(2, keepdim=True), token.mean(1, keepdim=True)
        mixed = _linear_of_parts(first, token, over_terms, over_states)
        for layer in rest:
            mixed = layer(mixed)
        hidden = self.norm(hidden + mixed)
        return hidden, 3.0 * self.out(hidden).squeeze(-1)


def _linear_of_parts(layer: nn.Linear, *parts: Tensor) -> Tensor:
    """`layer` of the concatenation of tensors that broadcast against each other."""
    weights = layer.weight.split([p.shape[-1] for p in parts], 1)
    out = linear(parts[0], weights[0], layer.bias)
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        out = out + linear(part, weight)
    return out


class Regression(NamedTuple):
    """Three forms of one regression; coefficients are in units of the columns' root mean square `power`."""

    power: Tensor  # (B, m)
    grams: Tensor  # (B, d, 3, m, m), each over its residual variance
    moments: Tensor  # (B, d, 3, m, 1)


class AmortisedNetwork(nn.Module):
    """The operator; see the module's docstring. `encode` gives coefficients, `decode` evaluates them."""

    def __init__(self, config: AmortisedConfig):
        super().__init__()
        self.config = config
        self.context = ContextNetwork(config.n_features, config.context_width, config.n_levels)
        self.updates = nn.ModuleList(
            PrecisionUpdate(N_TOKEN_STATISTICS, config.token_width, config.context_width)
            for _ in range(config.n_updates)
        )
        self.local = LocalMixture(config.n_local_features, config.n_levels, config.context_width)
        self.start = nn.Linear(config.context_width, 1)
        self.tables = nn.ModuleList(MonomialTable(d, config.degree) for d in range(1, config.largest_dim + 1))

    def _table(self, dim: int) -> MonomialTable:
        table = self.tables[dim - 1]
        assert isinstance(table, MonomialTable)
        return table

    def encode(self, t: Tensor, x: Tensor, mask: Tensor) -> Encoding:
        """Infer one field per context.

        Parameters
        ----------
        t : Tensor
            Sorted times per trajectory (B, K, L), padding at the end.
        x : Tensor
            Observations (B, K, L, d), d <= `LARGEST_DIM`.
        mask : Tensor
            (B, K, L) bool, True where a sample is observed in all coordinates.
        """
        b, k, n, d = x.shape
        flat = mask.reshape(b * k, n)
        start = torch.where(mask, t, torch.finfo(t.dtype).max).amin(-1, keepdim=True)
        t = torch.where(mask, t - start, 0.0)
        states, slopes = smoothing_bank(t.reshape(b * k, n), x.reshape(b * k, n, d), flat, self.config.widths)
        levels = states.shape[1]

        def gather(bank: Tensor) -> Tensor:
            return bank.view(b, k, levels, n, d).transpose(1, 2).reshape(b, levels, k * n, d)

        return self.encode_bank(t, x, mask, gather(states), gather(slopes))

    def encode_bank(
        self,
        t: Tensor,
        x: Tensor,
        mask: Tensor,
        states: Tensor,
        slopes: Tensor,
    ) -> Encoding:
        """`encode` from a smoothing bank (B, W + 1, K L, d) computed before, with times starting at 0."""
        b, k, n, d = x.shape
        table = self._table(d)
        weight = mask.reshape(b, k * n).to(x.dtype)
        raw = torch.where(mask[..., None], x, 0.0).reshape(b, k * n, d)
        units = self._units(raw, slopes, weight)
        raw = raw / units.scale[:, None]
        states = states / units.scale[:, None, None]
        slopes = slopes * (units.time_unit[:, None] / units.scale)[:, None, None]
        time = t / units.time_unit[:, None, None]
        features = self._features(time, mask, raw, states, slopes, units.deviation, weight)
        dtype = self.start.weight.dtype
        embedding, *choices = self.context(features.to(dtype))
        local = self.local(_local_features(mask, raw, states, slopes, weight).to(dtype), embedding)
        state_mix, slope_mix, floor, forms = (_bounded_gradient(c) for c in choices)
        path = _mixture(states, state_mix[:, None] + _bounded_gradient(local[0]))
        velocity = _mixture(slopes, slope_mix[:, None] + _bounded_gradient(local[1]))
        # far from what was seen in training the floor may be anything, and must not make all weights zero
        noise = torch.exp(floor.to(x.dtype).clamp(max=LARGEST_FLOOR))
        rows = weight[..., None] / (path.detach() ** 2 + noise[:, None])
        rows = rows / rows.sum(1, keepdim=True) * weight.sum(1)[:, None, None]
        regression = self.regression(time, mask, raw, path, velocity, rows)
        solved = self._solves(table, regression, forms, embedding)
        return Encoding(*solved, units.scale, units.time_unit)

    def decode(self, encoding: Encoding, points: Tensor, solve: int = -1) -> Tensor:
        """Field (B, Q, d) at points (B, Q, d), in original units."""
        table = self._table(points.shape[-1])
        columns = table(points / encoding.scale[:, None])
        unit = (encoding.scale / encoding.time_unit[:, None])[:, None]
        return columns @ encoding.coefficients[solve] * unit

    @torch.inference_mode()
    def infer_coefficients(self, t: Tensor, x: Tensor, mask: Tensor) -> Estimate:
        """What `encode` finds, as coefficients in the units of the data."""
        encoding = self.encode(t, x, mask)
        exponents = self._table(x.shape[-1]).exponents.to(encoding.scale.dtype)
        columns = torch.exp(encoding.scale.log() @ exponents.T)
        factor = (encoding.scale / encoding.time_unit[:, None])[:, None] / columns[..., None]
        transposed = factor.transpose(1, 2)
        information = encoding.information / (transposed[..., :, None] * transposed[..., None, :])
        solves = torch.stack(encoding.coefficients, 1) * factor[:, None]
        return Estimate(solves, encoding.variances * factor**2, information, encoding.scale)

    def _units(self, raw: Tensor, slopes: Tensor, weight: Tensor) -> Normalisation:
        scale = _masked_mean(raw**2, weight).sqrt()
        scale = torch.where(scale > 0, scale, 1.0)
        centred = raw / scale[:, None] - _masked_mean(raw / scale[:, None], weight)[:, None]
        deviation = _masked_mean(centred**2, weight).sqrt()
        speed = _masked_mean((slopes[:, 3] / scale[:, None]) ** 2, weight)
        moving = deviation > 1e-9
        ratio = torch.where(moving, speed / deviation.clamp(min=1e-9) ** 2, 0.0)
        rate = (ratio.sum(-1) / moving.sum(-1).clamp(min=1)).sqrt()
        return Normalisation(scale, deviation, torch.where(rate > 0, 1 / rate.clamp(min=1e-30), 1.0))

    def _features(
        self,
        time: Tensor,
        mask: Tensor,
        raw: Tensor,
        states: Tensor,
        slopes: Tensor,
        sd: Tensor,
        weight: Tensor,
    ) -> Tensor:
        # Floors belong to the trained weights: 1e-14 of squares is where smoothing errors of noise-free data
        # end; 1e-2 (of mean squares) keeps samples near zero from deciding; 1e-6 is a state that hardly
        # moves.
        residual = (raw[:, None] - states[:, :-1]) ** 2
        spread = sd.clamp(min=1e-6)
        plain = 0.5 * torch.log(_masked_mean(residual, weight) / spread[:, None] ** 2 + 1e-14)
        relative = 0.5 * torch.log(_masked_mean(residual / (raw[:, None] ** 2 + 1e-2), weight) + 1e-14)
        speed = 0.5 * torch.log(_masked_mean(slopes**2, weight) / spread[:, None] ** 2 + 1e-14)
        by_level = torch.cat([plain, relative, speed], 1).transpose(1, 2)
        mean = _masked_mean(raw, weight)
        highest = raw.abs().where(weight[..., None] > 0, 0.0).amax(1)
        gaps = (time[..., 1:] - time[..., :-1]).where(mask[..., 1:], 0.0)
        n_gaps = mask[..., 1:].sum((1, 2))
        irregular = (gaps**2).sum((1, 2)) * n_gaps / gaps.sum((1, 2)) ** 2
        span = gaps.sum((1, 2)) / mask.shape[1]
        shared = torch.stack(
            [
                torch.log(span),
                torch.log(weight.sum(1)) - 5,
                torch.log(mask.any(-1).sum(-1).to(raw.dtype)),
                torch.log(irregular),
            ],
            -1,
        )
        features = torch.stack([mean.abs(), sd, torch.log(spread), highest], -1)
        return torch.cat([0.3 * by_level, features, shared[:, None].expand(-1, raw.shape[2], -1)], -1)

    def regression(
        self, time: Tensor, mask: Tensor, raw: Tensor, path: Tensor, velocity: Tensor, rows: Tensor
    ) -> Regression:
        """The three forms of the regression along one path, each over its residual variance.

        Equal to `fim_dynsys.regression.forms.normal_forms`. Times and mask are (B, K, L); samples, smoothed
        states, slopes and row weights (B, K L, d).
        """
        table = self._table(raw.shape[-1])
        b, k, n = mask.shape
        columns, rates = table.with_rates(path, velocity)
        power = _masked_mean(columns.detach() ** 2, mask.view(b, k * n).to(raw.dtype)).clamp(min=1e-24).sqrt()
        c = (columns / power[:, None]).view(b, k, n, -1)
        r = (rates / power[:, None]).view(b, k, n, -1)
        step = (time[..., 1:] - time[..., :-1]).where(mask[..., 1:], 0.0)[..., None]
        # trapezoid with the Hermite end correction: error of fourth order in the step
        pieces = 0.5 * step * (c[:, :, :-1] + c[:, :, 1:]) + step**2 / 12 * (r[:, :, :-1] - r[:, :, 1:])
        integral = torch.cat([torch.zeros_like(pieces[:, :, :1]), pieces.cumsum(2)], 2).view(b, k * n, -1)
        root = rows.transpose(1, 2).sqrt()[..., None]  # (B, d, N, 1)
        count = mask.sum((1, 2)).to(raw.dtype)
        derivative = c.view(b, 1, k * n, -1), velocity.transpose(1, 2)[..., None]
        grams, moments, totals = [], [], []
        starts = (0, 1, self.config.n_segments)
        for segments in starts:
            form = _free_starts(integral, raw, rows, mask, segments) if segments else derivative
            left, right = (root * form[0]).double(), (root * form[1]).double()
            grams.append(left.transpose(-1, -2) @ left)
            moments.append(left.transpose(-1, -2) @ right)
            totals.append((right**2).sum((-2, -1), keepdim=True))
        gram, moment, total = torch.stack(grams, 2), torch.stack(moments, 2), torch.stack(totals, 2)
        spent = k * torch.tensor(starts, device=raw.device)
        variance = residual_variance(gram.detach(), moment.detach(), total.detach(), count[:, None] - spent)
        return Regression(power, gram / variance, moment / variance)

    def _solves(
        self, table: MonomialTable, regression: Regression, forms: Tensor, embedding: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Ridge solves with learned updates of the log precisions between them; see `Encoding`."""
        weight = torch.exp(forms.double())[..., None, None]
        gram, moment = (weight * regression.grams).sum(2), (weight * regression.moments).sum(2)
        b, d, m, _ = gram.shape
        dtype, power = embedding.dtype, regression.power.double()[..., None]
        shape, factors, mine = self._token_constants(table, regression.power, embedding)
        hidden = embedding.new_zeros(b, d, m, self.config.token_width)
        log_precision = self.start(embedding).expand(b, d, m)
        solution, variance = ridge_solve(gram, moment, log_precision.double())
        steps = [solution.transpose(1, 2) / power]
        for update in self.updates:
            # what the tokens see is detached: the logarithm of a coefficient near zero has no useful gradient
            mean, uncertainty = solution.detach(), variance.detach()
            size = torch.log(mean.abs() + 1e-5).to(dtype)  # terms below matter to no field: all alike
            spread = 0.5 * torch.log(uncertainty).to(dtype)
            ratio = torch.log1p(mean**2 / uncertainty).to(dtype)
            features = torch.cat([torch.stack([size, spread, ratio, log_precision], -1) * 0.3, shape], -1)
            hidden, change = update(hidden, features, factors, mine)
            log_precision = log_precision + _bounded_gradient(change)
            solution, variance = ridge_solve(gram, moment, log_precision.double())
            steps.append(solution.transpose(1, 2) / power)
        information = gram * (regression.power[:, :, None] * regression.power[:, None])[:, None]
        return steps, variance.transpose(1, 2) / power**2, information

    def _token_constants(
        self, table: MonomialTable, power: Tensor, embedding: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What a token knows of its term and coordinate.

        Exponents as seen from its coordinate and size of the term (B, d, m, 5); the context of the term's
        factors (B, 1, m, C) and of the coordinate (B, d, 1, C).
        """
        b, d, _ = embedding.shape
        e = table.exponents.to(embedding.dtype)  # (m, d)
        eye = torch.eye(d, dtype=torch.bool, device=e.device)
        others = e[None].expand(d, -1, -1).masked_fill(eye[:, None], 0.0)
        total = e.sum(1).expand(d, -1)
        shape = torch.stack([e.T, total, others.amax(-1), (others > 0).sum(-1).to(e.dtype)], -1)
        size = torch.log(power).to(embedding.dtype)[:, None, :, None].expand(-1, d, -1, -1)
        shape = torch.cat([shape[None].expand(b, -1, -1, -1), size], -1)
        return shape, (e @ embedding)[:, None], embedding[:, :, None]


def _local_features(mask: Tensor, raw: Tensor, states: Tensor, slopes: Tensor, weight: Tensor) -> Tensor:
    """How much neighbouring bandwidths disagree at each sample, its size and its distance to an end."""
    noise = _masked_mean((raw - states[:, 2]) ** 2, weight).sqrt()[:, None, None] + 1e-6
    speed = _masked_mean(slopes[:, 2] ** 2, weight).sqrt()[:, None, None] + 1e-6
    apart = (states[:, :-2] - states[:, 1:-1]).abs() / noise
    slopes_apart = (slopes[:, :-2] - slopes[:, 1:-1]).abs() / speed
    by_level = torch.log(torch.cat([apart, slopes_apart], 1) + 1e-2).permute(0, 2, 3, 1)
    b, k, n = mask.shape
    place = torch.arange(n, device=mask.device).expand(b, k, n)
    to_end = torch.minimum(place, (mask.sum(-1, keepdim=True) - 1 - place).clamp(min=0))
    to_end = torch.log1p(to_end.to(raw.dtype)).view(b, k * n, 1, 1).expand(*raw.shape, 1)
    size = torch.log(states[:, 2].abs() + 3e-2)[..., None]
    return 0.3 * torch.cat([by_level, size, to_end], -1)


def _mixture(bank: Tensor, logits: Tensor) -> Tensor:
    """Mean (B, N, d) of the levels of a bank (B, L, N, d) with weights from logits (B, N, d, L)."""
    return (bank.permute(0, 2, 3, 1) * logits.to(bank.dtype).softmax(-1)).sum(-1)


_STEEPEST = 2.0  # norm of a context's gradient by what is chosen: a usual one is below 1


def _bounded_gradient(choice: Tensor) -> Tensor:
    """Cut each context's gradient where it leaves the solve, so that one ill-posed context moves nothing."""
    if choice.requires_grad:

        def cut(gradient: Tensor) -> Tensor:
            norm = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
            factor = (_STEEPEST / len(gradient) / norm.clamp(min=1e-30)).clamp(max=1.0)
            shape = (-1, *[1] * (gradient.ndim - 1))
            return torch.where(norm.isfinite().view(shape), factor.view(shape) * gradient, 0.0)

        choice.register_hook(cut)
    return choice


def _free_starts(
    integral: Tensor, raw: Tensor, rows: Tensor, mask: Tensor, segments: int
) -> tuple[Tensor, Tensor]:
    """Integral rows (B, d, N, m), observations (B, d, N, 1), both less the best start of each segment."""
    b, k, n = mask.shape
    count = mask.sum(-1, keepdim=True).clamp(min=1)
    position = (torch.arange(n, device=mask.device) * segments // count).clamp(max=segments - 1)
    group = position + segments * torch.arange(k, device=mask.device)[:, None]
    member = (group[..., None] == torch.arange(segments * k, device=mask.device)) & mask[..., None]
    member = member.to(raw.dtype).view(b, 1, k * n, segments * k)
    weight = rows.transpose(1, 2)[..., None]  # (B, d, N, 1)
    total = (member * weight).sum(2).clamp(min=1e-30)[..., None]  # (B, d, G, 1)
    weighted = (member * weight).transpose(-1, -2)
    target = raw.transpose(1, 2)[..., None]
    residual = integral[:, None] - member @ ((weighted @ integral[:, None]) / total)
    right = target - member @ ((weighted @ target) / total)
    return residual, right
