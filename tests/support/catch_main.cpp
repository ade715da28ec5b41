// The main of Catch2 version 2, compiled once for all tests.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
