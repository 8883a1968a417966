package io.github.redisthrottle.spring

import io.github.redisthrottle.LimitedException
import io.github.redisthrottle.testing.Server
import java.net.ServerSocket
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicInteger
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.async
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flowOf
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.reactor.asCoroutineDispatcher as ofReactor
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.yield
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeAll
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import org.springframework.boot.WebApplicationType
import org.springframework.context.annotation.Bean
import org.springframework.context.annotation.Configuration
import org.springframework.web.bind.annotation.GetMapping
import org.springframework.web.bind.annotation.RestController
import reactor.core.scheduler.Schedulers

/**
 * Functions of Kotlin that suspend: each call is decided before it reaches the function, and no thread waits for that.
 */
class SuspendTest {
  /** An interface whose function is limited. */
  interface Waiter {
    @RateLimit(key = "#guest", limits = "RATE 1/h", name = "waiter")
    suspend fun greet(guest: String): String
  }

  open class Polite : Waiter {
    override suspend fun greet(guest: String): String {
      delay(1)
      return "hello $guest"
    }
  }

  open class Kitchen {
    private val cooked = AtomicInteger()

    open fun cooked() = cooked.get()

    @RateLimit(key = "#dish", limits = "RATE 2/h", name = "suspended")
    open suspend fun cook(dish: String): String {
      delay(1)
      cooked.incrementAndGet()
      return "fresh $dish"
    }

    @RateLimit(limits = "RATE 2/h", name = "nothing")
    open suspend fun clean(): String? = null

    @RateLimit(key = "#dish", limits = "RATE 1/h", name = "heat", fallbackMethod = "leftovers")
    open suspend fun heat(dish: String): String = "hot $dish"

    suspend fun leftovers(dish: String, why: RuntimeException): String {
      delay(1)
      return "old $dish: ${why is LimitedException}"
    }

    @RateLimit(key = "#dish", limits = "RATE 1/h", name = "bake", fallbackMethod = "crumbs")
    open suspend fun bake(dish: String): String = "warm $dish"

    fun crumbs(dish: String): String = "crumbs of $dish"

    @RateLimit(key = "#dish", limits = "RATE 1/h", name = "serve")
    open fun serve(dish: String): Flow<String> = flowOf(dish, "salad", "bread")

    @RateLimit(key = "#dish", limits = "RATE 1/h", name = "prepare")
    open suspend fun prepare(dish: String): Flow<String> {
      delay(1)
      return flowOf(dish, "salad", "bread")
    }
  }

  @RestController
  open class Menu {
    @RateLimit(key = "header('X-Guest')", limits = "RATE 2/h", name = "menu")
    @GetMapping("/menu")
    open suspend fun menu(): String {
      delay(1)
      return "soup"
    }
  }

  @Configuration(proxyBeanMethods = false)
  open class Beans {
    @Bean open fun kitchen() = Kitchen()

    @Bean open fun polite() = Polite()

    @Bean open fun menu() = Menu()
  }

  companion object {
    private lateinit var server: Server
    private lateinit var application: Application

    private val kitchen: Kitchen
      get() = application.bean(Kitchen::class.java)

    @BeforeAll
    @JvmStatic
    fun start() {
      server = Server.start()
      application = Application.start(WebApplicationType.NONE, server, listOf(Beans::class.java))
    }

    @AfterAll
    @JvmStatic
    fun stop() {
      application.close()
      server.close()
    }
  }

  @Test
  fun aCallThatIsDeniedDoesNotReachTheFunction() = runBlocking {
    val before = kitchen.cooked()
    repeat(2) { assertEquals("fresh soup", kitchen.cook("soup")) }
    val denied = assertThrows(LimitedException::class.java) { runBlocking { kitchen.cook("soup") } }
    assertEquals("method:suspended:soup", denied.result().key())
    assertEquals(before + 2, kitchen.cooked())
    assertEquals("fresh rice", kitchen.cook("rice"))
  }

  @Test
  fun aFunctionMayReturnNull() = runBlocking {
    repeat(2) { assertEquals(null, kitchen.clean()) }
    assertThrows(LimitedException::class.java) { runBlocking { kitchen.clean() } }
    Unit
  }

  @Test
  fun theAnnotationMayBeThatOfAnInterface() = runBlocking {
    val waiter = application.bean(Waiter::class.java)
    assertEquals("hello ann", waiter.greet("ann"))
    assertThrows(LimitedException::class.java) { runBlocking { waiter.greet("ann") } }
    Unit
  }

  @Test
  fun aFallbackAnswersWhetherItSuspendsOrNot() = runBlocking {
    assertEquals(listOf("hot soup", "old soup: true"), List(2) { kitchen.heat("soup") })
    assertEquals(listOf("warm bread", "crumbs of bread"), List(2) { kitchen.bake("bread") })
  }

  @Test
  fun aFlowIsDecidedWhenItIsCollected() = runBlocking {
    val course = kitchen.serve("fish")
    assertEquals(listOf("fish", "salad", "bread"), course.toList())
    assertThrows(LimitedException::class.java) { runBlocking { course.toList() } }
    assertEquals(listOf("fish", "salad", "bread"), kitchen.prepare("fish").toList())
    assertThrows(LimitedException::class.java) { runBlocking { kitchen.prepare("fish").toList() } }
    Unit
  }

  @Test
  fun noThreadWaitsForADecision() {
    Executors.newSingleThreadExecutor().asCoroutineDispatcher().use { alone ->
      server.pause()
      try {
        runBlocking(alone) {
          val meal = async { kitchen.cook("slow") }
          yield() // to the call, which gives the only thread back
          assertFalse(meal.isCompleted)
          server.resume()
          assertEquals("fresh slow", meal.await())
        }
      } finally {
        server.resume()
      }
    }
    runBlocking { withContext(Schedulers.parallel().ofReactor()) { assertEquals("fresh fast", kitchen.cook("fast")) } }
  }

  @Test
  fun aCallWithoutADecisionGetsTheAnswerOfTheApplication() {
    val nowhere = ServerSocket(0).use { it.localPort }
    for (answer in listOf("allow", "deny")) {
      val url = "redis-throttle.url=redis://127.0.0.1:$nowhere"
      Application.start(WebApplicationType.NONE, null, listOf(Beans::class.java), url, "redis-throttle.outage=$answer").use {
        val kitchen = it.bean(Kitchen::class.java)
        if (answer == "allow") {
          assertEquals("fresh soup", runBlocking { kitchen.cook("soup") })
        } else {
          assertThrows(UndecidedException::class.java) { runBlocking { kitchen.cook("soup") } }
          assertEquals(0, kitchen.cooked())
        }
      }
    }
  }

  @ParameterizedTest
  @EnumSource(names = ["SERVLET", "REACTIVE"])
  fun aControllerIsLimited(type: WebApplicationType) {
    Application.start(type, server, listOf(Beans::class.java)).use {
      val guest = type.name
      repeat(2) { _ ->
        val served = it.get("/menu", "X-Guest", guest)
        assertEquals("200 soup", "${served.statusCode()} ${served.body()}")
        assertTrue(served.headers().firstValue("RateLimit").isPresent)
      }
      val denied = it.get("/menu", "X-Guest", guest)
      assertEquals(429, denied.statusCode(), denied.body())
      assertTrue(denied.headers().firstValue("Retry-After").isPresent)
    }
  }
}
