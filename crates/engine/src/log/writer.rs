//! The one thread that writes: a group after the other, each durable before the next begins.

use std::sync::Arc;

use super::queue::Queue;
use super::segments::Segments;

/// Writes until the queue is closed and empty, or until anything fails.
pub(super) fn run(queue: &Arc<Queue>, mut segments: Segments) {
    let _departure = Departure(queue);
    let mut frames = Vec::new();
    while let Some(mut group) = queue.take(&mut frames) {
        match segments.write_group(&mut group) {
            Ok(written) => queue.finish(&group, written),
            Err(error) => {
                queue.fail(&format!("{}: {error}", segments.place()));
                return;
            }
        }
    }
}

/// Tells the queue that nobody writes any more, also when the writer panics.
struct Departure<'a>(&'a Queue);

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        self.0.fail("its writer has ended");
    }
}
