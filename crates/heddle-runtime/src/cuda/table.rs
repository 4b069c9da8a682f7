//! Tables of functions that a library is asked for by name.

/// A structure of function pointers, with `load`, which finds all of them in a library or names the first that it lacks. Each
/// entry states the method, the exported name and the types of the arguments; all return a status.
macro_rules! function_table {
    (
        $(#[$doc:meta])*
        struct $name:ident {
            $( $field:ident = $symbol:literal ( $($argument:ty),* $(,)? ), )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        struct $name {
            $( $field: unsafe extern "C" fn($($argument),*) -> ::std::ffi::c_int, )*
            /// Keeps the functions where they are.
            _library: ::libloading::Library,
        }

        impl $name {
            fn load(library: ::libloading::Library) -> ::std::result::Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: the library's interface gives the function of this name this type.
                        $field: *unsafe {
                            library.get(concat!($symbol, "\0").as_bytes())
                        }
                        .map_err(|_| $symbol)?,
                    )*
                    _library: library,
                })
            }
        }
    };
}

pub(super) use function_table;
