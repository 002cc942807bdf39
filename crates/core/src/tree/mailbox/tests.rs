use dauntless_contract::FailureCode;
use proptest::prelude::*;

use super::*;

fn id(from: u128, number: u64) -> MessageId {
    MessageId { from: RunId::from_u128(from), number }
}

fn message(from: u128, number: u64, reply_to: Option<MessageId>) -> TreeMessage {
    TreeMessage { id: id(from, number), agent: "b".into(), reply_to, text: format!("{number}").into() }
}

#[test]
fn a_reply_is_kept_until_it_is_asked_for_and_a_question_is_none() {
    let (mut mailbox, asked) = (Mailbox::default(), id(1, 9));
    mailbox.put(message(2, 1, None)).unwrap();
    mailbox.put(message(2, 2, Some(asked))).unwrap();
    assert_eq!(mailbox.take_reply(id(1, 8)), None);
    assert_eq!(mailbox.take_reply(asked).unwrap().id, id(2, 2), "it was there before anybody waited");
    assert_eq!(mailbox.take_reply(asked), None);
    assert_eq!(mailbox.take_next().unwrap().id, id(2, 1), "the question of the same sender is still there");
}

#[test]
fn a_message_that_is_delivered_again_is_there_once() {
    let mut mailbox = Mailbox::default();
    assert_eq!(mailbox.put(message(2, 1, None)), Ok(Delivery::Delivered));
    assert_eq!(mailbox.put(message(2, 1, None)), Ok(Delivery::Again));
    mailbox.take_next().unwrap();
    assert_eq!(mailbox.put(message(2, 1, None)), Ok(Delivery::Again), "not after it was read either");
    assert_eq!(mailbox.waiting(), 0);
}

#[test]
fn a_full_box_refuses_and_takes_the_same_message_later() {
    let mut mailbox = Mailbox::default();
    for number in 1..=64 {
        mailbox.put(message(2, number, None)).unwrap();
    }
    assert_eq!(mailbox.put(message(3, 1, None)).unwrap_err().code, FailureCode::Overloaded);
    mailbox.take_next().unwrap();
    assert_eq!(mailbox.put(message(3, 1, None)), Ok(Delivery::Delivered));
    let long = TreeMessage { text: "x".repeat(MESSAGE_BYTES_MAX + 1).into(), ..message(4, 1, None) };
    assert_eq!(mailbox.put(long).unwrap_err().code, FailureCode::TooLarge);
}

proptest! {
    #[test]
    fn every_message_is_read_once_and_in_the_order_of_its_sender(
        steps in prop::collection::vec((0..3u128, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let (mut mailbox, mut sent, mut read) = (Mailbox::default(), [0; 3], [0; 3]);
        for (from, reads, repeats) in steps {
            let place = usize::try_from(from).unwrap();
            if reads {
                if let Some(got) = mailbox.take_next() {
                    let place = usize::try_from(got.id.from.as_u128()).unwrap();
                    read[place] += 1;
                    prop_assert_eq!(got.id.number, read[place]);
                }
            } else if mailbox.put(message(from, sent[place] + 1, None)).is_ok() {
                sent[place] += 1;
                if repeats {
                    prop_assert_eq!(mailbox.put(message(from, sent[place], None)), Ok(Delivery::Again));
                }
            }
            prop_assert!(mailbox.waiting() <= MESSAGES_MAX);
        }
        let left: u64 = sent.iter().sum::<u64>() - read.iter().sum::<u64>();
        prop_assert_eq!(u64::try_from(mailbox.waiting()).unwrap(), left);
    }
}
