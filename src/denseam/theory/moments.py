"""Moments of large random matrices: Marchenko–Pastur, Wishart, and products of free matrices.

Where matrices are free (independent, and one of them in random directions), the average of any
product of their powers follows from the moments of each alone. φ is the trace over the size.
The functions use plain arithmetic, so exact fractions go in and come out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise, product

from denseam.ground.errors import InputError, above_zero, at_least_zero, refuse, whole

Block = tuple[int, ...]
Partition = tuple[Block, ...]

#: There are 208012 non-crossing partitions of 12 elements, and about four times as many per element more.
MOST_LETTERS = 12


def narayana(j: int, k: int) -> int:
    """Return N(j, k) = C(j, k) C(j, k−1) / j: non-crossing partitions of j elements into k blocks."""
    refuse(whole(j=j, k=k))
    return math.comb(j, k) * math.comb(j, k - 1) // j


def marchenko_pastur_moment(j: int, a: float) -> float:
    """Return m_j(a) = Σ_k N(j, k) a^(k−1).

    This is the limit of φ(Aʲ) for A = XᵀX/n, X an n×p matrix of independent entries of variance 1, a = p/n:
    m_1 = 1, m_2 = 1 + a, m_3 = 1 + 3a + a², m_4 = 1 + 6a + 6a² + a³. All are palindromes:
    a^(j−1) m_j(1/a) = m_j(a).
    """
    refuse([*whole(0, j=j), *at_least_zero(a=a)])
    return sum(narayana(j, k) * a ** (k - 1) for k in range(1, j + 1)) if j else 1


def marchenko_pastur_edges(a: float) -> tuple[float, float]:
    """Return (1 ∓ √a)², between which the eigenvalues lie (for a > 1, apart from those that are 0)."""
    refuse(above_zero(a=a))
    return (1 - math.sqrt(a)) ** 2, (1 + math.sqrt(a)) ** 2


def wishart_second_moment(K: int, N: int) -> int:
    """Return E tr((WᵀW)²) = K N (K + N + 1), exactly, for W of shape K×N and entries N(0, 1)."""
    refuse(whole(K=K, N=N))
    return K * N * (K + N + 1)


def wishart_third_moment(K: int, t1: float, t2: float, t3: float) -> float:
    """Return E tr((ZᵀZ)³), exactly, for Z of K independent rows N(0, Σ), with t_j = tr Σʲ.

    E tr((ZᵀZ)³) = K t1³ + 3 K (K + 1) t1 t2 + (K³ + 3K² + 4K) t3   (eq. wishart-3).
    """
    refuse(whole(K=K))
    return K * t1**3 + 3 * K * (K + 1) * t1 * t2 + (K**3 + 3 * K**2 + 4 * K) * t3


# --- free cumulants ------------------------------------------------------------------------------


def moments_from_free_cumulants(cumulants: Sequence[float]) -> list[float]:
    """Return m_1 … m_n from κ_1 … κ_n.

    With M(z) = 1 + Σ m_j zʲ and C(z) = 1 + Σ κ_j zʲ the relation is M(z) = C(z M(z)), so that
    m_n = Σ_s κ_s [z^(n−s)] M(z)ˢ, in which only moments below n occur.
    """
    moments: list[float] = []
    for n, cumulant in enumerate(cumulants, 1):
        moments.append(cumulant + _lower_terms(cumulants, moments, n))
    return moments


def free_cumulants_from_moments(moments: Sequence[float]) -> list[float]:
    """Return κ_1 … κ_n from m_1 … m_n: the inverse of `moments_from_free_cumulants`."""
    cumulants: list[float] = []
    for n, moment in enumerate(moments, 1):
        cumulants.append(moment - _lower_terms(cumulants, moments, n))
    return cumulants


def _lower_terms(cumulants: Sequence[float], moments: Sequence[float], n: int) -> float:
    """Return Σ_{s<n} κ_s [z^(n−s)] M(z)ˢ."""
    series: list[float] = [1, *moments[: n - 1]]
    power: list[float] = [1, *(0 for _ in range(n - 1))]
    total: float = 0
    for s in range(1, n):
        power = [sum(power[i] * series[k - i] for i in range(k + 1)) for k in range(n)]
        total += cumulants[s - 1] * power[n - s]
    return total


# --- non-crossing partitions ---------------------------------------------------------------------


@cache
def non_crossing_partitions(n: int) -> tuple[Partition, ...]:
    """Return all partitions of 0 … n−1 in which no two blocks cross."""
    refuse(whole(0, n=n))
    if n > MOST_LETTERS:
        raise InputError(f"n must be at most {MOST_LETTERS}, got {n!r}")
    return tuple(_partitions(tuple(range(n))))


def _partitions(things: Block) -> Iterator[Partition]:
    if not things:
        yield ()
        return
    first, rest = things[0], things[1:]
    for size in range(len(rest) + 1):
        for chosen in combinations(range(len(rest)), size):
            ends = (-1, *chosen, len(rest))
            gaps = [rest[i + 1 : j] for i, j in pairwise(ends)]
            block = (first, *(rest[i] for i in chosen))
            for inner in product(*(tuple(_partitions(gap)) for gap in gaps)):
                yield (block, *(b for partition in inner for b in partition))


def kreweras_complement(partition: Partition) -> Partition:
    """Return the coarsest partition of the places 0′ … (n−1)′, i′ just after i, that crosses no block.

    As permutations, with the blocks of π as rising cycles and c: i ↦ i + 1, it is π⁻¹ c.
    """
    before = {thing: block[i - 1] for block in map(sorted, partition) for i, thing in enumerate(block)}
    n = len(before)
    left = set(range(n))
    blocks: list[Block] = []
    while left:
        cycle, i = [], min(left)
        while i in left:
            left.remove(i)
            cycle.append(i)
            i = before[(i + 1) % n]
        blocks.append(tuple(sorted(cycle)))
    return tuple(blocks)


def mixed_moment(
    word: Sequence[tuple[int, int]], moments_a: Sequence[float], moments_b: Sequence[float]
) -> float:
    """Return φ(a^i1 b^j1 a^i2 b^j2 …) for free a and b.

    φ(a b_1 a b_2 … a b_n) = Σ_{π ∈ NC(n)} κ_π[a] φ_{K(π)}[b_1, …, b_n], where κ_π multiplies the free
    cumulants of a over the blocks of π, and φ_{K(π)} the moments of the products of b over the blocks of
    the Kreweras complement. A power a^i is i letters with b⁰ = 1 in between.

    Parameters
    ----------
    word
        The exponents (i1, j1), (i2, j2), …
    moments_a, moments_b
        φ(a), φ(a²), … and φ(b), φ(b²), …, up to the powers in the word.
    """
    for pair in word:
        for exponent in pair:
            refuse(whole(0, exponent=exponent))
    letters_a, letters_b = sum(i for i, _ in word), sum(j for _, j in word)
    for name, letters, moments in (("moments_a", letters_a, moments_a), ("moments_b", letters_b, moments_b)):
        if len(moments) < letters:
            raise InputError(f"{name} must hold at least {letters} moments for this word, got {len(moments)}")
    if letters_a == 0:
        return moments_b[letters_b - 1] if letters_b else 1
    # By cyclicity φ(w b^j) = φ(b^j w): b's before the first a are moved after the last.
    b: list[int] = []
    leading = 0
    for i, j in word:
        b += [0] * i
        if b:
            b[-1] += j
        else:
            leading += j
    b[-1] += leading
    cumulants = free_cumulants_from_moments(moments_a[:letters_a])
    series = [1, *moments_b]
    total: float = 0
    for partition in non_crossing_partitions(letters_a):
        term: float = 1
        for block in partition:
            term *= cumulants[len(block) - 1]
        for block in kreweras_complement(partition):
            term *= series[sum(b[i] for i in block)]
        total += term
    return total
