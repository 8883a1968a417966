package io.github.redisthrottle.spring.sliced;

import org.springframework.boot.autoconfigure.SpringBootApplication;

/** An application, slices of which are tested. */
@SpringBootApplication
class SlicedApplication {}
