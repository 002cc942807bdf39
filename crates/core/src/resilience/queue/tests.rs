use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn run(n: u128) -> RunId {
    RunId::from_u128(n)
}

fn all(queue: &mut Queue) -> Vec<u64> {
    std::iter::from_fn(|| queue.pop()).map(|ticket| ticket.0).collect()
}

#[test]
fn lim_02_runs_take_turns_and_within_a_run_the_first_is_first() {
    let mut queue = Queue::default();
    for ticket in 1..=4 {
        let _ = queue.push(run(1), Ticket(ticket));
    }
    let _ = queue.push(run(2), Ticket(5));
    let _ = queue.push(run(3), Ticket(6));
    let _ = queue.push(run(2), Ticket(7));
    assert_eq!(all(&mut queue), [1, 5, 6, 2, 7, 3, 4]);
    assert_eq!(queue, Queue { next_number: queue.next_number, ..Queue::default() }, "nothing is left of it");
}

#[test]
fn lim_02_a_run_that_comes_late_waits_for_one_call_of_each_other_run_at_most() {
    let mut queue = Queue::default();
    for ticket in 1..=1000 {
        let _ = queue.push(run(u128::from(ticket % 2)), Ticket(ticket));
    }
    let _ = queue.pop();
    let _ = queue.push(run(7), Ticket(5000));
    let order = all(&mut queue);
    assert_eq!(order.iter().position(|ticket| *ticket == 5000), Some(2));
}

proptest! {
    /// Against the plainest model: a list of runs, each with a list of calls.
    #[test]
    fn lim_02_it_is_a_round_of_lists(ops in proptest::collection::vec((0_u8..4, 0_u128..4, any::<usize>()), 1..200)) {
        let mut queue = Queue::default();
        let mut model: VecDeque<(u128, VecDeque<u64>)> = VecDeque::new();
        let mut turns = Vec::new();
        for (ticket, (op, of, which)) in (0_u64..).zip(ops) {
            match op {
                0 | 1 => {
                    turns.push((queue.push(run(of), Ticket(ticket)), of, ticket));
                    match model.iter_mut().find(|(run, _)| *run == of) {
                        Some((_, calls)) => calls.push_back(ticket),
                        None => model.push_back((of, VecDeque::from([ticket]))),
                    }
                }
                2 => {
                    let expected = model.pop_front().and_then(|(of, mut calls)| {
                        let first = calls.pop_front();
                        if !calls.is_empty() {
                            model.push_back((of, calls));
                        }
                        first
                    });
                    prop_assert_eq!(queue.pop().map(|ticket| ticket.0), expected);
                }
                _ if turns.is_empty() => {}
                _ => {
                    let (turn, of, ticket) = turns[which % turns.len()];
                    queue.leave(turn);
                    if let Some((_, calls)) = model.iter_mut().find(|(run, _)| *run == of) {
                        calls.retain(|other| *other != ticket);
                    }
                    model.retain(|(_, calls)| !calls.is_empty());
                }
            }
            prop_assert_eq!(queue.len(), model.iter().map(|(_, calls)| calls.len()).sum::<usize>());
        }
    }
}
