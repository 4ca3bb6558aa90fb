//! Host scenario tests.
