//! How long a login of an unknown user takes.

use super::*;

/// Half of the rounds took less than this.
fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// A login with a wrong password, at a gate that knows the user or not.
fn attempt(user: &str, users: &[(&str, &Secret)], like: &Secret) -> Duration {
    let mut asked = Vec::new();
    let began = Instant::now();
    let known = match users.iter().find(|(name, _)| *name == user) {
        Some((_, secret)) => Known { secret: (*secret).clone(), origin: Origin::File },
        None => Known::nobody(user, Some(like)),
    };
    let mut gate = Gate::new(user, &known, None, &mut asked);
    let mut took = began.elapsed();
    let mut client = login(ServerCredentials::Keys(
        ClientKeys::of_password(
            b"wrong",
            known.secret.verifier().unwrap().salt_and_iterations().0,
            4_096,
            began + Duration::from_secs(60),
        )
        .unwrap(),
    ));
    for _ in 0..2 {
        let mut said = Vec::new();
        client.on_server(&asked, &mut said).unwrap();
        asked.clear();
        let began = Instant::now();
        let step = gate.on_client(&said, &mut asked).1;
        took += began.elapsed();
        assert!(!matches!(step, Step::In(_)));
    }
    took
}

/// A client that measures could otherwise find out which users there are.
#[test]
fn an_unknown_user_takes_as_long_as_a_known_one() {
    let (verifier, clear) = (secret(&hash_password(PASSWORD)), secret(PASSWORD));
    let users = [("ann", &verifier), ("bob", &clear)];
    let mut took = [const { Vec::new() }; 3];
    for _ in 0..200 {
        for (user, took) in ["ann", "bob", "nobody"].iter().zip(&mut took) {
            took.push(attempt(user, &users, &verifier));
        }
    }
    let [ann, bob, nobody] = took.map(median);
    // Microseconds each; hashing a password, which must not happen here, takes a thousand times as long.
    for known in [ann, bob] {
        let most = known.max(nobody);
        assert!(most < known.min(nobody) * 3 + Duration::from_micros(30), "{known:?}, and of nobody {nobody:?}");
    }
}
