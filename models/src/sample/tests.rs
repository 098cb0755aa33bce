//! Draws held against what they should be.

use super::*;
use kv::Sampling;

fn of(temperature: f32, seed: u64, index: u32) -> Draw {
    Draw::new(Sampling { temperature, top_p: 1.0, top_k: 0, min_p: 0.0, seed }, index)
}

fn tokens(rows: &[&[f32]], draws: &[Draw]) -> Vec<i32> {
    let flat: Vec<f32> = rows.concat();
    let z = Array::from_slice(&flat, &[rows.len() as i32, rows[0].len() as i32]);
    let drawn = draw(&z, &draws.iter().collect::<Vec<_>>()).unwrap();
    drawn.tokens.as_slice::<i32>().to_vec()
}

/// How often each of the row's tokens is drawn in `n` draws of one seed.
fn shares(row: &[f32], base: &Draw, n: u32) -> Vec<f32> {
    let mut counts = vec![0f32; row.len()];
    for first in (0..n).step_by(50) {
        let draws: Vec<Draw> = (first..first + 50).map(|index| Draw { index, ..base.clone() }).collect();
        for t in tokens(&vec![row; 50], &draws) {
            counts[t as usize] += 1.0 / n as f32;
        }
    }
    counts
}

const ROW: [f32; 5] = [0.0, 2.0, 1.0, -1.0, 0.5];

#[test]
fn greedy_is_the_largest_that_is_not_banned() {
    let _turn = crate::mlx::turn();
    let banned = Draw { banned: vec![1, 4_000_000_000], ..of(0.0, 7, 0) };
    assert_eq!(tokens(&[&ROW, &ROW], &[of(0.0, 7, 0), banned]), [1, 2]);
}

#[test]
fn draws_follow_the_softmax_at_the_temperature() {
    let _turn = crate::mlx::turn();
    for temperature in [0.5, 1.0, 2.0] {
        let n = 4000;
        let got = shares(&ROW, &of(temperature, 11, 0), n);
        let weights: Vec<f32> = ROW.iter().map(|z| (z / temperature).exp()).collect();
        let total: f32 = weights.iter().sum();
        for (g, w) in got.iter().zip(&weights) {
            let p = w / total;
            // Five standard deviations of a binomial share: one seed, so it either always holds or never.
            assert!((g - p).abs() <= 5.0 * (p * (1.0 - p) / n as f32).sqrt(), "temperature {temperature}: {g} for {p}");
        }
    }
}

#[test]
fn filters_leave_only_what_they_keep() {
    let _turn = crate::mlx::turn();
    // Probabilities of ROW: 0.076 0.563 0.207 0.028 0.126, so by rank 1, 2, 4, 0, 3.
    let with = |top_p: f32, top_k: u32, min_p: f32| {
        let base = Draw { sampling: Sampling { temperature: 1.0, top_p, top_k, min_p, seed: 3 }, ..of(1.0, 3, 0) };
        shares(&ROW, &base, 1000).iter().map(|s| *s > 0.0).collect::<Vec<bool>>()
    };
    let kept = |ids: &[usize]| (0..5).map(|i| ids.contains(&i)).collect::<Vec<bool>>();
    assert_eq!(with(1.0, 2, 0.0), kept(&[1, 2]));
    assert_eq!(with(0.5, 0, 0.0), kept(&[1]), "the first reaches a half alone");
    assert_eq!(with(0.6, 0, 0.0), kept(&[1, 2]));
    assert_eq!(with(0.85, 0, 0.0), kept(&[1, 2, 4]));
    assert_eq!(with(1.0, 0, 0.3), kept(&[1, 2]), "0.3 of the likeliest is 0.17");
    assert_eq!(with(1e-9, 0, 0.0), kept(&[1]), "one token is always left");
    assert_eq!(with(1.0, 99, 0.0), kept(&[0, 1, 2, 3, 4]));
    assert_eq!(with(0.7, 3, 0.0), kept(&[1, 2]), "of the three likeliest's mass");
}

#[test]
fn a_draw_depends_on_seed_and_index_and_on_no_neighbour() {
    let _turn = crate::mlx::turn();
    let flat = [0f32; 64];
    let mine = of(1.0, 5, 9);
    let alone = tokens(&[&flat], std::slice::from_ref(&mine))[0];
    let among = tokens(&[&flat, &flat, &flat], &[of(1.0, 6, 9), mine.clone(), of(0.0, 0, 0)]);
    assert_eq!(among[1], alone);
    let other_seeds: Vec<i32> = (100..140).map(|s| tokens(&[&flat], &[of(1.0, s, 9)])[0]).collect();
    let other_indices: Vec<i32> = (100..140).map(|i| tokens(&[&flat], &[of(1.0, 5, i)])[0]).collect();
    for many in [other_seeds, other_indices] {
        assert!(many.iter().collect::<std::collections::BTreeSet<_>>().len() > 20, "40 draws of 64 equal tokens: {many:?}");
    }
}

#[test]
fn a_row_that_is_not_finite_is_told_from_its_neighbours() {
    let _turn = crate::mlx::turn();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let rows: [&[f32]; 2] = [&[0.0, bad, 1.0], &[0.0, 3.0, 1.0]];
        let z = Array::from_slice(&rows.concat(), &[2, 3]);
        let draws = [of(0.0, 1, 0), of(0.0, 1, 0)];
        let drawn = draw(&z, &draws.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(drawn.finite.as_slice::<bool>(), [false, true]);
        assert_eq!(drawn.tokens.as_slice::<i32>()[1], 1);
    }
}
