//! The part of guiderail.h that the example uses, made safe: calls that can fail return a `Result`, and handles are freed.

use std::ffi::{c_char, c_void, CStr};
use std::ptr;

mod raw {
    use super::*;
    #[repr(C)]
    pub struct Opaque {
        _private: [u8; 0],
    }
    extern "C" {
        pub fn gr_error_message() -> *const c_char;
        pub fn gr_program_read(file: *const c_void, size: usize, limits: *const c_void, out: *mut *mut Opaque) -> i32;
        pub fn gr_program_free(program: *mut Opaque);
        pub fn gr_vocabulary_read(file: *const c_void, size: usize, out: *mut *mut Opaque) -> i32;
        pub fn gr_vocabulary_size(vocabulary: *const Opaque) -> u32;
        pub fn gr_vocabulary_bitmask_words(vocabulary: *const Opaque) -> usize;
        pub fn gr_vocabulary_token_bytes(v: *const Opaque, token: u32, bytes: *mut *const u8, size: *mut usize) -> i32;
        pub fn gr_vocabulary_free(vocabulary: *mut Opaque);
        pub fn gr_guide_new(program: *const Opaque, v: *const Opaque, options: *const c_void, out: *mut *mut Opaque) -> i32;
        pub fn gr_guide_free(guide: *mut Opaque);
        pub fn gr_matcher_new(guide: *const Opaque, out: *mut *mut Opaque) -> i32;
        pub fn gr_matcher_free(matcher: *mut Opaque);
        pub fn gr_matcher_fill_bitmask_within(m: *const Opaque, budget: u64, mask: *mut u32, words: usize, some: *mut bool) -> i32;
        pub fn gr_matcher_accept_token(matcher: *mut Opaque, token: u32, accepted: *mut bool) -> i32;
        pub fn gr_matcher_is_terminated(matcher: *const Opaque, terminated: *mut bool) -> i32;
    }
}

#[derive(Debug)]
pub struct Error(pub String);

fn check(status: i32) -> Result<(), Error> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the message is a C string that lives until this thread's next call that fails.
    Err(Error(unsafe { CStr::from_ptr(raw::gr_error_message()) }.to_string_lossy().into_owned()))
}

macro_rules! handle {
    ($name:ident, $free:ident) => {
        pub struct $name(*mut raw::Opaque);
        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the library made it, and it is freed once.
                unsafe { raw::$free(self.0) }
            }
        }
    };
}
handle!(Program, gr_program_free);
handle!(Vocabulary, gr_vocabulary_free);
handle!(Guide, gr_guide_free);
handle!(Matcher, gr_matcher_free);

// SAFETY: by the header, any number of threads may use these at once; a matcher may move to another thread.
unsafe impl Send for Program {}
unsafe impl Sync for Program {}
unsafe impl Send for Vocabulary {}
unsafe impl Sync for Vocabulary {}
unsafe impl Send for Guide {}
unsafe impl Sync for Guide {}
unsafe impl Send for Matcher {}

impl Program {
    pub fn read(file: &[u8]) -> Result<Self, Error> {
        let mut out = ptr::null_mut();
        // SAFETY: the slice is valid for its length; the library reads it only during the call.
        check(unsafe { raw::gr_program_read(file.as_ptr().cast(), file.len(), ptr::null(), &mut out) })?;
        Ok(Program(out))
    }
}

impl Vocabulary {
    pub fn read(file: &[u8]) -> Result<Self, Error> {
        let mut out = ptr::null_mut();
        // SAFETY: as above.
        check(unsafe { raw::gr_vocabulary_read(file.as_ptr().cast(), file.len(), &mut out) })?;
        Ok(Vocabulary(out))
    }
    pub fn size(&self) -> u32 {
        unsafe { raw::gr_vocabulary_size(self.0) }
    }
    pub fn words(&self) -> usize {
        unsafe { raw::gr_vocabulary_bitmask_words(self.0) }
    }
    pub fn bytes(&self, token: u32) -> Result<&[u8], Error> {
        let (mut bytes, mut size) = (ptr::null(), 0);
        check(unsafe { raw::gr_vocabulary_token_bytes(self.0, token, &mut bytes, &mut size) })?;
        // SAFETY: the bytes live as long as the vocabulary.
        Ok(if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes, size) } })
    }
}

impl Guide {
    pub fn new(program: &Program, vocabulary: &Vocabulary) -> Result<Self, Error> {
        let mut out = ptr::null_mut();
        check(unsafe { raw::gr_guide_new(program.0, vocabulary.0, ptr::null(), &mut out) })?;
        Ok(Guide(out))
    }
    pub fn matcher(&self) -> Result<Matcher, Error> {
        let mut out = ptr::null_mut();
        check(unsafe { raw::gr_matcher_new(self.0, &mut out) })?;
        Ok(Matcher(out))
    }
}

impl Matcher {
    /// The tokens after which the text can be completed with `budget - 1` others.
    pub fn fill(&self, budget: u64, mask: &mut [u32]) -> Result<(), Error> {
        check(unsafe {
            raw::gr_matcher_fill_bitmask_within(self.0, budget, mask.as_mut_ptr(), mask.len(), ptr::null_mut())
        })
    }
    pub fn accept(&mut self, token: u32) -> Result<bool, Error> {
        let mut accepted = false;
        check(unsafe { raw::gr_matcher_accept_token(self.0, token, &mut accepted) })?;
        Ok(accepted)
    }
    pub fn terminated(&self) -> Result<bool, Error> {
        let mut terminated = false;
        check(unsafe { raw::gr_matcher_is_terminated(self.0, &mut terminated) })?;
        Ok(terminated)
    }
}
