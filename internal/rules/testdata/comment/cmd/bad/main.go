package main // want
