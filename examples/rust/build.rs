// GUIDERAIL_LIB is the folder of libguiderail; by default the linker searches its usual folders.
fn main() {
    if let Ok(folder) = std::env::var("GUIDERAIL_LIB") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    println!("cargo:rustc-link-lib=dylib=guiderail");
    println!("cargo:rerun-if-env-changed=GUIDERAIL_LIB");
}
