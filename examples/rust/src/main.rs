//! A text that fits a constraint, token by token.
//!
//!     guiderail export --schema ticket.json -o ticket.rail --save-vocabulary model.rail
//!     GUIDERAIL_LIB=/usr/local/lib cargo run -- ticket.rail model.rail
//!
//! The "model" here draws tokens at random; a real one takes the likeliest of those that the mask allows.

mod guiderail;

use guiderail::{Error, Guide, Program, Vocabulary};
use std::io::Write;

const MOST_TOKENS: u64 = 200;

fn draw(mask: &[u32], size: u32, seed: &mut u64) -> u32 {
    let allowed: Vec<u32> = (0..size).filter(|t| mask[(t / 32) as usize] >> (t % 32) & 1 == 1).collect();
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    allowed[((*seed >> 33) % allowed.len() as u64) as usize]
}

fn write(program: &[u8], vocabulary: &[u8]) -> Result<Vec<u8>, Error> {
    let vocabulary = Vocabulary::read(vocabulary)?;
    let guide = Guide::new(&Program::read(program)?, &vocabulary)?;
    let mut matcher = guide.matcher()?;
    let (mut mask, mut text, mut seed) = (vec![0; vocabulary.words()], Vec::new(), 1);
    for left in (1..=MOST_TOKENS).rev() {
        matcher.fill(left, &mut mask)?;
        let token = draw(&mask, vocabulary.size(), &mut seed);
        assert!(matcher.accept(token)?, "the mask allowed it");
        if matcher.terminated()? {
            break;
        }
        text.extend_from_slice(vocabulary.bytes(token)?);
    }
    Ok(text)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 3 {
        eprintln!("usage: {} program.rail vocabulary.rail", arguments[0]);
        std::process::exit(2);
    }
    let read = |path: &String| std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    match write(&read(&arguments[1]), &read(&arguments[2])) {
        Ok(text) => {
            std::io::stdout().write_all(&text).expect("stdout");
            println!();
        }
        Err(Error(message)) => {
            eprintln!("{message}");
            std::process::exit(1);
        }
    }
}
