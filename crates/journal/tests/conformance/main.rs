//! One suite for all stores: each statement of docs/durability.md, by its number, on each of them.
//!
//! A statement is a function of a [`rig::Rig`], which knows how to open, kill and supplant workers
//! of one store. What only an engine can break has a file of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it cannot go on"
)]

mod asking;
mod cast;
mod child;
mod claims;
mod clocks;
mod cluster;
mod crash;
mod facts;
mod failover;
mod keeping;
mod older;
#[path = "../../../../tests/crash/postgres.rs"]
#[expect(unreachable_pub, dead_code, reason = "public for the tests of power cuts, which end it otherwise")]
mod postgres_server;
mod rig;
mod server;
mod sharing;
mod sqlite;
mod starting;

/// Makes a test of each statement for one store.
macro_rules! on {
    ($store:ident: $($file:ident { $($statement:ident)+ })+) => {
        mod $store {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $statement() {
                    let rig = crate::rig::Rig::$store().await;
                    crate::$file::$statement(&rig).await;
                    rig.end().await;
                }
            )+)+
        }
    };
}

macro_rules! on_every_store {
    ($($statements:tt)*) => {
        on! { memory: $($statements)* }
        on! { sqlite_file: $($statements)* }
        on! { postgres: $($statements)* }
    };
}

macro_rules! on_durable_stores {
    ($($statements:tt)*) => {
        mod durable {
            on! { sqlite_file: $($statements)* }
            on! { postgres: $($statements)* }
        }
    };
}

on_every_store! {
    facts {
        what_was_appended_is_read_in_order
        who_has_not_seen_the_last_event_cannot_write
        one_run_is_created_once
        one_client_key_starts_one_run
        time_goes_on_from_the_last_event
        dur_06_two_forks_share_nothing_that_changes
        dur_17_a_journal_grows_by_what_is_new
        dur_18_a_long_run_is_as_quick_as_a_short_one
        dur_21_what_is_too_large_is_refused_and_the_run_goes_on
        dur_26_an_event_that_is_out_of_order_is_refused
        dur_38_a_letter_sent_twice_is_one
    }
    claims {
        a_run_waits_as_long_as_its_owner_asked
        a_wake_tells_of_a_new_run
        a_worker_that_was_given_up_makes_runs_for_others
        dur_02_no_run_stays_owned_by_a_dead_worker
        dur_07_a_worker_that_lives_keeps_its_run
        dur_10_a_worker_never_adopts_its_own_run
        dur_11_who_was_supplanted_cannot_write
        dur_12_the_list_tells_all_that_decides
        dur_13_an_earlier_incarnation_has_no_rights
        dur_14_a_late_result_is_kept_beside_the_run
        dur_22_runs_for_other_code_are_counted
        dur_27_a_run_that_ends_its_workers_is_put_in_quarantine
        dur_28_poison_delays_no_other_run
        a_choice_of_configuration_is_the_runs_own_from_then_on
        an_outage_is_told_to_every_worker_until_it_is_over
    }
    asking {
        a_worker_is_told_which_of_its_runs_have_unread_letters
        a_full_worker_takes_only_children
        one_run_can_be_claimed_past_all_others
        the_list_tells_whose_run_it_is_and_how_old
        the_runs_below_a_root_are_listed_alone
    }
    sharing {
        a_pad_is_written_only_by_who_has_seen_it
        of_many_who_write_a_pad_at_once_each_is_counted
        a_pad_goes_with_its_root
        a_letter_is_posted_while_there_is_room
        children_are_listed_in_the_order_of_their_creation
    }
    keeping {
        dur_20_ended_runs_go_and_live_ones_stay
        a_large_event_is_read_as_it_was_written
        a_body_that_one_run_drops_while_another_begins_to_use_it_stays
        a_snapshot_is_found_by_its_fold
        a_snapshot_is_what_its_owner_wrote
        equal_blobs_are_kept_once_for_as_long_as_a_run_needs_them
    }
}

on_durable_stores! {
    crash {
        dur_01_a_created_run_survives_its_process
        dur_02_a_killed_process_leaves_claimable_runs
        dur_11_a_stopped_process_is_fenced_when_it_goes_on
        dur_34_a_child_of_the_worker_keeps_nobody_alive
    }
    clocks {
        dur_16_a_wrong_wall_clock_moves_no_takeover
    }
    starting {
        dur_19_a_worker_starts_on_a_large_journal_at_once
    }
    keeping {
        a_large_body_is_stored_once_and_beside_the_events
        a_snapshot_of_megabytes_is_stored_small
        dur_20_disk_space_comes_back
        dur_20_one_call_drops_no_more_than_a_slice
        dur_24_an_event_of_a_newer_program_is_refused_by_name
    }
}
